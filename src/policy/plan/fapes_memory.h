// What a round of FaPES leaves to the next one: the plans on the board, and how they have gone.
// They are numbers in the plan's memory, by the names of jobs and nodes, since both come and go.
//
// A job that has ended is forgotten, and with it the rest of its plan (reading A16).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policy/plan/board.h"

namespace sluice::policy {

struct FapesRecord {
  Schedule schedule;        // from the present round; empty: none, or it is over
  bool lacks_node = false;  // a node of the schedule is gone
  bool planned = false;     // the job has been given a plan
  // At the time of the plan:
  double noise = 0;
  bool measured = false;  // it had a step model
  // Of the rounds of the plan that are over:
  double past_goodput = 0, past_seconds = 0;
  // When these were last counted:
  double at = 0, done = 0;  // seconds of the loop's clock, samples
  double achievement = 0;
};

// What such a memory says of the coming rounds, for people.
struct BoardView {
  struct Node {
    int devices = 0;
    std::vector<int> held;       // by round
    std::vector<double> prices;  // of a device there, in seconds of completion time
  };
  double round_seconds = 0;
  std::map<std::string, Node> nodes;
  std::map<std::string, std::vector<int>> rounds_of;  // workers by job and round
};
// Returns nullopt if it is another plan's memory. `devices`: of each node.
std::optional<BoardView> board_view(const Memory& memory,
                                    const std::map<std::string, int>& devices);

class FapesMemory {
 public:
  // Begins a new round of that length, unless one is under way (deal() also asks at events).
  FapesMemory(Table& table, Nanos round);

  // Returns a job's record, its schedule without the rounds that are over.
  FapesRecord of(size_t job) const;
  // Replaces all records; by job of the table. `board`: for board_view().
  void remember(const std::vector<FapesRecord>& records, const Board& board);

 private:
  std::string name(size_t job) const;
  std::string node(size_t number) const;

  Table& table_;
  const Nanos round_;
  std::map<std::string, size_t> numbers_of_nodes_;
  size_t over_ = 0;   // rounds, since the records were made
  double begin_ = 0;  // of the present round
};

}  // namespace sluice::policy

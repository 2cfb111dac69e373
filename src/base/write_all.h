// Writes all of it, however often the kernel takes a part. Any thread.
#pragma once

#include <string_view>

namespace sluice {

// Returns whether all was written; errno says why not. `fd` must block.
bool write_all(int fd, std::string_view bytes);

}  // namespace sluice

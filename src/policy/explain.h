// How reasons are written: the units that people read.
#pragma once

#include <string>

#include "base/clock.h"
#include "model/slice.h"

namespace sluice::policy {

std::string percent(double fraction);
std::string percent(Share share);               // "20 %", "12.5 %"
std::string per_second(double rate);            // "42.0/s"
std::string milliseconds(Nanos time);           // "17.5 ms"
std::string mebibytes(Bytes size);              // "96 MiB"
std::string slice_text(Share sm, Share quota);  // "sm 50 % × quota 20 %"

}  // namespace sluice::policy

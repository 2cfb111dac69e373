# Writes the C++ of docs/adding-a-policy.md as the page says that it is added: a fenced block to the
# file that its first line names, and the lines for the table of bundles into a copy of the table.
#   awk -v out=FOLDER -f page_code.awk docs/adding-a-policy.md src/policy/bundles.cc
FNR == NR && /^```cpp$/ {
  getline
  path = $2
  next
}
FNR == NR && /^```$/ { path = "" }
FNR == NR && path ~ /bundles\.cc/ && /^#include/ { include = include $0 "\n"; next }
FNR == NR && path ~ /bundles\.cc/ { entry = entry $0 "\n"; next }
FNR == NR && path != "" { print > (out "/" path) }
FNR == NR { next }
/^#include/ && !included++ { printf "%s", include > (out "/src/policy/bundles.cc") }
{ print > (out "/src/policy/bundles.cc") }
/ kBundles\[\] = \{$/ { printf "%s", entry > (out "/src/policy/bundles.cc") }

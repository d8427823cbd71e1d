# Writes OUT, which defines Version() and BuildId(); leaves it alone where nothing changed.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
#include "base/version.h"

namespace trireme {
std::string_view Version() { return "@VERSION@"; }
std::string_view BuildId() { return "@VERSION@+@commit@"; }
}  // namespace trireme
]])

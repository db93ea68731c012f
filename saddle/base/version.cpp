#include "saddle/version.hpp"

namespace saddle {

const char* version() { return SADDLE_VERSION; }

}  // namespace saddle

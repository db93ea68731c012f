// saddle version.
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "output.hpp"
#include "saddle/version.hpp"

namespace saddle::cli {

Command version_command() {
  return {"version",
          "Print the version.",
          {{"the version", "saddle version"}, {"for scripts", "saddle version --json"}},
          {},
          [](const Context& context) {
            if (context.json) {
              print_json("saddle.version/1", {{"version", version()}});
            } else {
              print(std::string("saddle ") + version() + "\n");
            }
            return Exit::ok;
          }};
}

}  // namespace saddle::cli

#include "failure.hpp"

#include <filesystem>
#include <new>

#include "command.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"

namespace saddle::cli {

namespace {

constexpr const char* path_hint = "check that the path exists and may be read or written";

// Some messages end with their own hint; it is not said twice.
std::string without_hint(std::string message, const std::string& hint) {
  const std::string tail = "; " + hint;
  if (!hint.empty() && message.ends_with(tail)) message.erase(message.size() - tail.size());
  return message;
}

int report(const Error& error, int code, const std::string& fallback) {
  print_error(without_hint(error.what(), error.hint()), error.hint().empty() ? fallback : error.hint());
  return code;
}

int report(const NotSupported& error, const std::string& fallback) {
  std::string message = error.what();
  for (const std::string& refusal : error.refusals())
    if (message.find(refusal) == std::string::npos) message += "\n  " + refusal;
  print_error(message, error.hint().empty() ? fallback : error.hint());
  return Exit::not_supported;
}

}  // namespace

std::string help_hint(const std::string& path) { return "run '" + path + " --help' for examples"; }

int guarded(const std::string& path, const std::function<int()>& body) {
  try {
    return body();
  } catch (const InvalidArgument& error) {
    return report(error, Exit::usage, help_hint(path));
  } catch (const DataError& error) {
    return report(error, Exit::bad_data, "correct the file and run the command again");
  } catch (const NotSupported& error) {
    return report(error, help_hint(path));
  } catch (const Error& error) {
    return report(error, Exit::failed, path_hint);
  } catch (const std::filesystem::filesystem_error& error) {
    print_error(error.what(), path_hint);
  } catch (const std::bad_alloc&) {
    print_error("out of memory", "try a smaller shape");
  } catch (const std::exception& error) {
    print_error(error.what(), "this is a defect of saddle: please report it with the output of 'saddle doctor'");
  }
  return Exit::failed;
}

}  // namespace saddle::cli

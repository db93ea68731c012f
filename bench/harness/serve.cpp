// saddle on the other side of the pipe: rows for a comparison of two revisions, or in a process of their own.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "contender.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "statistics.hpp"

namespace saddle::bench {

namespace {

Row row_of(const Json& request) {
  Row row;
  row.attention = request.at("attention").get<std::string>();
  row.dims = dims_of(request.at("shape").get<std::vector<Index>>(), "shape");
  row.dtype = parse_dtype(request.at("dtype").get<std::string>());
  row.pass = parse_pass(request.at("pass").get<std::string>());
  row.layout = parse_layout(request.at("layout").get<std::string>());
  row.threads = request.at("threads").get<int>();
  validate(row);
  return row;
}

// The first run in this process: its memory is all there is to see.
Json set_up(const Json& request, std::unique_ptr<Problem>& problem) {
  problem = std::make_unique<Problem>(row_of(request));
  double seconds = 0;
  const double memory = extra_memory([&] {
    const double start = now();
    problem->run();
    seconds = now() - start;
  });
  const auto* forward = problem->forward();
  return {{"ok", true},
          {"implementation", forward != nullptr ? forward->name() : ""},
          {"isa", forward != nullptr ? saddle::to_string(forward->isa()) : ""},
          {"seconds", seconds},
          {"memory", memory}};
}

}  // namespace

std::shared_ptr<Child> start_saddle(const std::string& program) {
  return std::make_shared<Child>(std::vector<std::string>{program, "bench", "--serve"},
                                 std::map<std::string, std::string>{});
}

int serve() {
  set_log_level(LogLevel::error);
  std::unique_ptr<Problem> problem;
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      const Json request = Json::parse(line);
      const std::string op = request.at("op").get<std::string>();
      if (op == "setup") {
        answer = set_up(request, problem);
      } else if (op == "round" && problem) {
        answer = {{"seconds", OwnContender(*problem).round(request.at("seconds").get<double>())}};
      } else {
        answer = {{"ok", false}, {"reason", "unknown request '" + op + "'"}};
      }
    } catch (const std::exception& error) {
      answer = {{"ok", false}, {"reason", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace saddle::bench

// saddle derive: how an attention follows from its primal problem.
#include <memory>
#include <nlohmann/json.hpp>

#include "argument.hpp"
#include "command.hpp"
#include "output.hpp"
#include "saddle/base/error.hpp"
#include "saddle/primal/derivation.hpp"

namespace saddle::cli {

namespace {

struct DeriveOptions {
  std::string attention, format = "text", shape, out;
  Index seed = 0;
};

int derive(const DeriveOptions& options, const Context& context) {
  const primal::Attention attention = read_attention(options.attention);
  if (options.seed < 0) throw InvalidArgument("--seed must not be negative");
  primal::DerivationOptions derivation;
  derivation.format = primal::parse_format(options.format);
  derivation.seed = static_cast<std::uint64_t>(options.seed);
  derivation.dims = options.shape.empty() ? primal::fitting_dims(attention) : read_dims(options.shape, 0, 0);
  const Json document = Json::parse(primal::derive_json(attention, derivation));
  print_or_write(options.out,
                 context.json ? json_text("saddle.derive/1", document) : primal::derive(attention, derivation));
  const Json& certificate = document.at("certificate");
  if (certificate.at("holds").get<bool>()) return Exit::ok;
  print_error(certificate.contains("reason")
                  ? "there is no certificate on this data: " + certificate["reason"].get<std::string>()
                  : "the certificate does not hold",
              "the last step of the derivation has the numbers; --seed and --shape choose other data");
  return Exit::failed;
}

}  // namespace

Command derive_command() {
  const auto o = std::make_shared<DeriveOptions>();
  return {"derive",
          "Write out the derivation: primal problem, Lagrangian, stationarity, expansion, both evaluation forms, cost, "
          "and a certificate computed on seeded data.",
          {{"step by step in the terminal", "saddle derive softmax"},
           {"a composition that nobody wrote code for", "saddle derive 'rbf(gamma=0.5)+bn+causal'"},
           {"a page for the browser", "saddle derive attention_bn_sh --format html -o derivation.html"},
           {"another shape and other data for the certificate", "saddle derive linear --shape 1,2,12,3 --seed 7"}},
          {{"attention", "", attention_help, &o->attention, true},
           {"--format", "FORMAT", "default text", &o->format, false, {"text", "markdown", "latex", "html"}},
           {"--shape", "B,H,N,D", "shape of the cost table and of the certificate's data; default small", &o->shape},
           {"--seed", "S", "seed of the certificate's data; default 0", &o->seed},
           {"-o,--out", "FILE", "write to a file instead of stdout", &o->out}},
          [o](const Context& context) { return derive(*o, context); }};
}

}  // namespace saddle::cli

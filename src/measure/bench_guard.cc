#include "measure/bench_guard.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/sha256.h"

namespace loft {

OrderedJson guard_summary(const std::string& text) {
  const OrderedJson record = parse_ordered_json(text, "the guard's record");
  if (record.value("schema", "") != "loft.guard/1") fail(Code::Corrupt, "the guard's record is none of loft.guard/1");
  OrderedJson reasons = nullptr;
  size_t n_rejected = 0, n_samples = 0;
  for (const OrderedJson& attempt : record.at("attempts")) {
    n_rejected += attempt.at("clean") == false;
    n_samples = attempt.at("samples").size();
    for (const OrderedJson& sample : attempt.at("samples")) {
      if (reasons.is_null() && sample.at("clean") == false) reasons = sample.at("reasons");
    }
  }
  double idle = 0;
  for (const OrderedJson& wait : record.at("idle_waits")) idle += wait.at("seconds").get<double>();
  return {{"verdict", record.at("verdict")},
          {"attempts", record.at("attempts").size()},
          {"rejected", n_rejected},
          {"samples", n_samples},
          {"idle_wait_s", idle},
          {"lock_wait_s", record.at("lock").at("waited_s")},
          {"judge_cpu", record.at("rules").at("judge_cpu")},
          {"sources", record.at("sources")},
          {"reasons", reasons},
          {"record_sha256", sha256_hex(text)}};
}

bool is_contended(const OrderedJson& summary, int exit_status) {
  constexpr int kNotNow = 75;
  return exit_status == kNotNow && summary.is_object() &&
         (summary["verdict"] == "contended" || summary["verdict"] == "gave_up");
}

std::string contended_text(const OrderedJson& summary) {
  return summary["verdict"] == "gave_up" ? "the machine did not become idle in time"
                                         : "no attempt had the machine for itself";
}

}  // namespace loft

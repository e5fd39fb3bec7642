// probe: logits of a checkpoint. probe_forward FOLDER OUT ARITHMETIC CHUNK... < ids
// Reads token ids from stdin. For each CHUNK, a fresh cache takes the ids in passes of at most CHUNK rows, and the
// logits of all rows are appended to OUT as f32 [n_ids, vocab]. ARITHMETIC: how products see x, and the type of keys
// and values: f32 (both f32), a16 (a16, f32) or default (a16, f16: as `loft run` computes).
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "core/error.h"
#include "model/model.h"

namespace loft {
namespace {

struct Arithmetic {
  std::string_view name;
  QmmActivations activations;
  DType kv;
};
constexpr Arithmetic kArithmetics[] = {{"f32", QmmActivations::F32, DType::F32},
                                       {"a16", QmmActivations::A16, DType::F32},
                                       {"default", QmmActivations::A16, DType::F16}};

void run_chunks(Backend& backend, Model& model, KvCache cache, const std::vector<int32_t>& ids, int64_t chunk,
                std::ostream& out) {
  const int64_t n = int64_t(ids.size());
  for (int64_t first = 0; first < n; first += chunk) {
    const int64_t m = std::min(chunk, n - first);
    std::vector<int32_t> rows(static_cast<size_t>(m));
    for (int64_t i = 0; i < m; ++i) rows[size_t(i)] = int32_t(i);
    const BatchSequence sequence{.cache = &cache, .first_row = 0, .n_rows = m};
    const Tensor logits =
        model.forward({.tokens = {ids.data() + first, size_t(m)}, .sequences = {&sequence, 1}, .logit_rows = rows});
    std::vector<char> host(logits.bytes());
    backend.download(host.data(), logits.data, host.size());
    out.write(host.data(), std::streamsize(host.size()));
  }
}

int probe(int argc, char** argv) {
  const auto arithmetic = std::find_if(std::begin(kArithmetics), std::end(kArithmetics),
                                       [&](const Arithmetic& a) { return argc > 3 && a.name == argv[3]; });
  if (argc < 5 || arithmetic == std::end(kArithmetics))
    fail(Code::BadRequest, "usage: probe_forward FOLDER OUT f32|a16|default CHUNK... < ids");
  std::vector<int32_t> ids;
  for (int32_t id = 0; std::cin >> id;) ids.push_back(id);
  CpuBackendOptions options;
  options.policy.activations = arithmetic->activations;
  const std::unique_ptr<Backend> backend = open_cpu_backend(options);
  const int64_t n = int64_t(ids.size());
  const std::unique_ptr<Model> model = load_model(argv[1], *backend, {.max_rows = n, .max_logit_rows = n});
  std::ofstream out(argv[2], std::ios::binary);
  for (int i = 4; i < argc; ++i) {
    const int64_t chunk = std::stoll(argv[i]);
    run_chunks(*backend, *model, KvCache(*backend, model->kv_shape(arithmetic->kv, n, chunk)), ids, chunk, out);
  }
  return out.flush() ? 0 : 1;
}

}  // namespace
}  // namespace loft

int main(int argc, char** argv) {
  try {
    return loft::probe(argc, argv);
  } catch (const loft::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return loft::exit_status(e.code());
  }
}

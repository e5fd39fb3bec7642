// probe: logits of a checkpoint. probe_forward FOLDER OUT ACTIVATIONS CHUNK... < ids
// Reads token ids from stdin. For each CHUNK, a fresh f32 cache takes the ids in passes of at most CHUNK rows, and the
// logits of all rows are appended to OUT as f32 [n_ids, vocab]. ACTIVATIONS: f32 or a16, how products see x.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "core/error.h"
#include "model/model.h"

namespace loft {
namespace {

void run_chunks(Backend& backend, Model& model, const std::vector<int32_t>& ids, int64_t chunk, std::ostream& out) {
  const int64_t n = int64_t(ids.size());
  KvCache cache(backend, model.kv_shape(DType::F32, n, chunk));
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
  if (argc < 5) fail(Code::BadRequest, "usage: probe_forward FOLDER OUT f32|a16 CHUNK... < ids");
  std::vector<int32_t> ids;
  for (int32_t id = 0; std::cin >> id;) ids.push_back(id);
  CpuBackendOptions options;
  options.policy.activations = std::strcmp(argv[3], "f32") == 0 ? QmmActivations::F32 : QmmActivations::A16;
  const std::unique_ptr<Backend> backend = open_cpu_backend(options);
  const int64_t n = int64_t(ids.size());
  const std::unique_ptr<Model> model = load_model(argv[1], *backend, {.max_rows = n, .max_logit_rows = n});
  std::ofstream out(argv[2], std::ios::binary);
  for (int i = 4; i < argc; ++i) run_chunks(*backend, *model, ids, std::stoll(argv[i]), out);
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

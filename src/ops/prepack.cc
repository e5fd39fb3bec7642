// ops: see prepack.h.
#include "ops/prepack.h"

#include <chrono>

#include "core/log.h"
#include "qmm/route.h"

namespace loft {
namespace {

/// Whether the limit has room for the packed weight beside all that is there.
bool has_room(const Backend& backend, size_t bytes) {
  const MemoryStats memory = backend.memory();
  const size_t used = memory.active_bytes + memory.file_bytes;
  return memory.limit_bytes == 0 || (bytes <= memory.limit_bytes && used <= memory.limit_bytes - bytes);
}

void pack(Backend& backend, PackStats& stats, Linear& layer, size_t bytes) {
  const auto begin = std::chrono::steady_clock::now();
  layer.packed = backend.allocate(bytes);
  backend.pack(layer.weight, layer.wanted, layer.packed.data());
  backend.synchronize();
  for (const void* part : {layer.weight.words, layer.weight.scales, layer.weight.biases}) {
    if (part) backend.drop_placed(part);
  }
  layer.layout = layer.wanted;
  if (layer.kernel && layer.kernel->layout != layer.layout) layer.kernel = nullptr;
  ++stats.weights;
  stats.bytes += bytes;
  stats.ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

void wait_for_packing(Backend& backend, Linear& layer) {
  if (layer.wanted == Layout::Checkpoint) return;
  layer.layout = Layout::Checkpoint;
  layer.products_until_packed = 0;
  if (backend.policy().repack != QmmRepack::Auto) return;
  // A row that is forced by name may leave none for the weight as it lies.
  const QmmProblem one = {.spec = qmm_spec(layer.weight, layer.x_dtype), .m = 1};
  const RouteDecision d = select_qmm_route(one, layer.layout, backend.device(), backend.policy(), backend.qmm_table());
  if (!d.kernel) return;
  layer.products_until_packed = kProductsBeforePacking;
  layer.kernel = nullptr;
}

void pack_when_due(Backend& backend, PackStats& stats, Linear& layer) {
  if (layer.layout == layer.wanted) return;
  if (layer.products_until_packed > 0) {
    --layer.products_until_packed;
    return;
  }
  const size_t bytes = backend.packed_bytes(layer.weight, layer.wanted);
  if (bytes > 0 && has_room(backend, bytes)) {
    pack(backend, stats, layer, bytes);
    if (backend.policy().explain_routes) log_warn("{}: packed as {}", layer.name, layout_name(layer.layout));
    return;
  }
  ++stats.refusals;
  log_info("{}: stays as it lies: {} bytes more do not fit the memory limit", layer.name, bytes);
  layer.wanted = layer.layout;
  layer.kernel = nullptr;
}

}  // namespace loft

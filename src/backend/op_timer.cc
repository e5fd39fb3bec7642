#include "backend/op_timer.h"

#include <algorithm>

#include "backend/qmm_args.h"

namespace loft {
namespace {

struct OpWork {
  double bytes = 0, flops = 0;
};

template <class... Tensors>
OpWork touched(const Tensors&... tensors) {
  return {.bytes = (double(tensors.bytes()) + ...)};
}

/// Keys and values that the rows of a call see, and two products with each of them.
OpWork attention_work(const AttentionArgs& args) {
  OpWork out = touched(args.q, args.y);
  const double n_heads = double(args.q.dim(1)), head_dim = double(args.q.dim(2));
  for (const AttentionSegment& s : args.segments) {
    const int64_t end = s.n_past + s.n_rows;
    const int64_t rows = args.window > 0 ? std::min(end, args.window + s.n_rows - 1) : end;
    out.bytes += 2.0 * double(rows) * double(args.n_kv_heads) * head_dim * double(dtype_bytes(s.kv.dtype));
    for (int64_t i = s.n_past; i < end; ++i) {
      const int64_t seen = args.window > 0 ? std::min(i + 1, args.window) : i + 1;
      out.flops += 4.0 * double(seen) * n_heads * head_dim;
    }
  }
  return out;
}

}  // namespace

void OpTimer::start() {
  times_.clear();
  is_on_ = true;
}

std::vector<OpTime> OpTimer::stop() {
  is_on_ = false;
  std::vector<OpTime> out;
  for (const auto& [key, time] : times_) out.push_back(time);
  std::stable_sort(out.begin(), out.end(), [](const OpTime& a, const OpTime& b) { return a.ns > b.ns; });
  return out;
}

void OpTimer::add_time(const Key& key, double ns, double bytes, double flops) {
  OpTime& t = times_[key];
  t.name = key.first;
  t.route = key.second;
  ++t.calls;
  t.ns += ns;
  t.bytes += bytes;
  t.flops += flops;
}

template <class Call>
double OpTimer::ns_of(const Call& call) {
  using Clock = std::chrono::steady_clock;
  inner_->synchronize();
  const auto begin = Clock::now();
  call();
  inner_->synchronize();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

template <class Call, class Work>
void OpTimer::timed(const char* name, const Call& call, const Work& work) {
  if (!is_on_) return call();
  const double ns = ns_of(call);
  const OpWork w = work();
  add_time({name, ""}, ns, w.bytes, w.flops);
}

void OpTimer::upload(void* device_data, const void* host_data, size_t bytes) {
  timed(
      "upload", [&] { inner_->upload(device_data, host_data, bytes); }, [&] { return OpWork{.bytes = double(bytes)}; });
}
void OpTimer::download(void* host_data, const void* device_data, size_t bytes) {
  timed(
      "download", [&] { inner_->download(host_data, device_data, bytes); },
      [&] { return OpWork{.bytes = double(bytes)}; });
}
void OpTimer::copy(void* to, const void* from, size_t bytes) {
  timed(
      "copy", [&] { inner_->copy(to, from, bytes); }, [&] { return OpWork{.bytes = 2.0 * double(bytes)}; });
}
void OpTimer::embed(const Tensor& ids, const QuantWeight& table, const void* packed, float scale, const Tensor& y) {
  timed(
      "embed", [&] { inner_->embed(ids, table, packed, scale, y); },
      [&] {
        const double row_bytes = double(weight_bytes(table)) / double(table.n);
        return OpWork{.bytes = double(ids.size()) * row_bytes + double(y.bytes())};
      });
}
void OpTimer::rms_norm(const RmsNormArgs& args) {
  timed(
      "rms_norm", [&] { inner_->rms_norm(args); }, [&] { return touched(args.x, args.weight, args.y); });
}
void OpTimer::rope(const RopeArgs& args) {
  timed(
      "rope", [&] { inner_->rope(args); }, [&] { return touched(args.x, args.x); });
}
void OpTimer::store_kv(const StoreKvArgs& args) {
  timed(
      "store_kv", [&] { inner_->store_kv(args); }, [&] { return touched(args.k, args.v); });
}
void OpTimer::attention(const AttentionArgs& args) {
  timed(
      "attention", [&] { inner_->attention(args); }, [&] { return attention_work(args); });
}
void OpTimer::add(const Tensor& a, const Tensor& b, const Tensor& y) {
  timed(
      "add", [&] { inner_->add(a, b, y); }, [&] { return touched(a, b, y); });
}
void OpTimer::add_bias(const Tensor& x, const Tensor& bias, const Tensor& y) {
  timed(
      "add_bias", [&] { inner_->add_bias(x, bias, y); }, [&] { return touched(x, bias, y); });
}
void OpTimer::gated_activation(Activation act, const Tensor& gate, const Tensor& up, const Tensor& y) {
  timed(
      "gated_activation", [&] { inner_->gated_activation(act, gate, up, y); }, [&] { return touched(gate, up, y); });
}
void OpTimer::softcap(const Tensor& x, float cap, const Tensor& y) {
  timed(
      "softcap", [&] { inner_->softcap(x, cap, y); }, [&] { return touched(x, y); });
}
void OpTimer::gather_rows(const Tensor& x, const Tensor& rows, const Tensor& y) {
  timed(
      "gather_rows", [&] { inner_->gather_rows(x, rows, y); }, [&] { return touched(y, y); });
}
void OpTimer::cast(const Tensor& x, const Tensor& y) {
  timed(
      "cast", [&] { inner_->cast(x, y); }, [&] { return touched(x, y); });
}
void OpTimer::pack(const QuantWeight& weight, Layout layout, void* out) {
  timed(
      "pack", [&] { inner_->pack(weight, layout, out); },
      [&] { return OpWork{.bytes = 2.0 * double(weight_bytes(weight))}; });
}
void OpTimer::dequantize(const QuantWeight& weight, DType dtype, void* out) {
  timed(
      "dequantize", [&] { inner_->dequantize(weight, dtype, out); },
      [&] {
        return OpWork{.bytes = double(weight_bytes(weight)) +
                               double(weight.n) * double(weight.k) * double(dtype_bytes(dtype))};
      });
}

void OpTimer::run_qmm(const QmmArgs& args) {
  if (!is_on_) return inner_->run_qmm(args);
  const double ns = ns_of([&] { inner_->run_qmm(args); });
  double all = 0;
  for (const QmmPart& part : args.parts) all += double(weight_bytes(*part.weight));
  const double m = double(args.x.dim(0));
  for (const QmmPart& part : args.parts) {
    const QuantWeight& w = *part.weight;
    // The rows of x are read for all weights of the call together.
    const double share = all > 0 ? double(weight_bytes(w)) / all : 1.0 / double(args.parts.size());
    add_time({part.kernel->name, route_name(part.kernel->route)}, ns * share,
             double(weight_bytes(w)) + share * double(args.x.bytes()) + double(part.y.bytes()),
             2.0 * m * double(w.n) * double(w.k));
  }
}

}  // namespace loft

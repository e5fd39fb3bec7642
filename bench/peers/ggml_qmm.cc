// One quantized product through the public API of ggml, for bench/peers/qmm: built by bench/peers/install once against
// llama.cpp and once against ik_llama.cpp (-DIK), whose types of repacked weights differ.
//
//   ggml_qmm N K THREADS PASSES TYPE[,TYPE..] M[,M..]
//
// y[M, N] = x[M, K] W[N, K]^T over copies of W that together hold over 300 MB, so that no cache keeps them. One pass is
// one graph with a product a copy (fewer where m is large). Prints a line "TYPE M NANOSECONDS", of one product, for
// every pass after a discarded one. TYPE+r: in the buffer that llama.cpp repacks weights for.
#include "ggml-backend.h"
#include "ggml.h"
#ifndef IK
#include "ggml-cpu.h"
#endif

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr double kBytesOfCopies = 300e6;
constexpr double kFlopsOfPass = 2e10;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "ggml_qmm: %s\n", what.c_str());
  std::exit(1);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    words.push_back(word);
  }
  return words;
}

ggml_type type_of(const std::string& name) {
  for (int t = 0; t < GGML_TYPE_COUNT; ++t) {
    const char* known = ggml_type_name(static_cast<ggml_type>(t));
    if (known != nullptr && name == known) {
      return static_cast<ggml_type>(t);
    }
  }
  fail("no type " + name);
}

// Where weights lie: plain memory, or memory whose contents ggml interleaves for its kernels when they are set.
ggml_backend_buffer_type_t buffer_type(bool repacked) {
#ifdef IK
  if (repacked) {
    fail("ik_llama.cpp has types for repacked weights");
  }
  return ggml_backend_cpu_buffer_type();
#else
  if (!repacked) {
    return ggml_backend_cpu_buffer_type();
  }
  auto* device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  auto* extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  for (auto** b = extra(device); *b != nullptr; ++b) {
    if (std::strstr(ggml_backend_buft_name(*b), "REPACK") != nullptr) {
      return *b;
    }
  }
  fail("no buffer for repacked weights");
#endif
}

struct Weights {
  ggml_context* context;
  std::vector<ggml_tensor*> copies;
};

Weights make_weights(const std::string& name, int n, int k) {
  const bool repacked = name.size() > 2 && name.ends_with("+r");
  const ggml_type type = type_of(repacked ? name.substr(0, name.size() - 2) : name);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n) * k);
  for (float& v : values) {
    v = normal(random);
  }
  std::vector<uint8_t> bytes(ggml_row_size(type, k) * n);
  ggml_quantize_chunk(type, values.data(), bytes.data(), 0, n, k, nullptr);
  const int copies = std::max(2, static_cast<int>(kBytesOfCopies / static_cast<double>(bytes.size())) + 1);
  Weights w{ggml_init({ggml_tensor_overhead() * (copies + 1), nullptr, true}), {}};
  for (int i = 0; i < copies; ++i) {
    w.copies.push_back(ggml_new_tensor_2d(w.context, type, k, n));
  }
  if (ggml_backend_alloc_ctx_tensors_from_buft(w.context, buffer_type(repacked)) == nullptr) {
    fail("no memory for weights");
  }
  for (ggml_tensor* t : w.copies) {
    ggml_backend_tensor_set(t, bytes.data(), 0, bytes.size());
  }
  return w;
}

void run(const std::string& name, const Weights& w, int m, int threads, int passes) {
  const int64_t k = w.copies[0]->ne[0], n = w.copies[0]->ne[1];
  const double flops = 2.0 * m * static_cast<double>(n) * static_cast<double>(k);
  const int products = std::clamp(static_cast<int>(kFlopsOfPass / flops), 1, static_cast<int>(w.copies.size()));
  const size_t room = static_cast<size_t>(m) * (k + n * products) * sizeof(float) + (256U << 20U);
  ggml_context* context = ggml_init({room, nullptr, false});
  ggml_tensor* x = ggml_new_tensor_2d(context, GGML_TYPE_F32, k, m);
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  auto* values = static_cast<float*>(x->data);
  for (int64_t i = 0; i < k * m; ++i) {
    values[i] = normal(random);
  }
  size_t next = 0;
  for (int pass = -1; pass < passes; ++pass) {
    ggml_context* nodes = ggml_init({room, nullptr, false});
    ggml_cgraph* graph = ggml_new_graph(nodes);
    for (int i = 0; i < products; ++i) {
      ggml_build_forward_expand(graph, ggml_mul_mat(nodes, w.copies[next++ % w.copies.size()], x));
    }
    const auto start = std::chrono::steady_clock::now();
    if (ggml_graph_compute_with_ctx(nodes, graph, threads) != GGML_STATUS_SUCCESS) {
      fail("a graph failed");
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    if (pass >= 0) {
      std::printf("%s %d %.0f\n", name.c_str(), m, took.count() / products);
    }
    ggml_free(nodes);
  }
  ggml_free(context);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    fail("usage: ggml_qmm N K THREADS PASSES TYPE[,TYPE..] M[,M..]");
  }
  const int n = std::atoi(argv[1]), k = std::atoi(argv[2]), threads = std::atoi(argv[3]), passes = std::atoi(argv[4]);
  for (const std::string& type : split(argv[5])) {
    const Weights w = make_weights(type, n, k);
    for (const std::string& m : split(argv[6])) {
      run(type, w, std::atoi(m.c_str()), threads, passes);
    }
    ggml_free(w.context);
  }
}

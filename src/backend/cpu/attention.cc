// backend/cpu: attention of all segments of a batch. Work is cut into tasks of (query rows of a segment, key/value
// head), and in a decode step with few of those also by chunks of 512 positions. Chunks are folded in ascending order
// in either case, so the bytes of a row depend neither on the cut nor on the thread count.
#include <algorithm>

#include "backend/cpu/cpu_ops.h"

namespace loft {
namespace {

// Query rows (of all heads of a group) that share one pass over the keys: a block of keys costs to pack about what two
// tiles of four rows cost, and what 128 rows need stays in L2. Fewer where threads would wait for work.
constexpr int64_t kMostQueryRows = 128, kLeastQueryRows = 32;
constexpr int64_t kTasksAThread = 8;

struct Geometry {
  int64_t d, dp;        // head_dim, and padded to whole vectors
  int64_t group;        // query heads a key/value head
  int64_t rows_a_task;  // rows of x
  int64_t n_q;          // query rows of a full task
};

/// Rows [row, row + n_rows) of a segment against one key/value head.
struct Task {
  const AttentionSegment* segment;
  int64_t row;
  int64_t n_rows;
  int64_t head;
};

/// First position that any row of the task sees, and the position after the last one.
struct Span {
  int64_t begin, end;
};
Span visible_span(const AttentionArgs& args, const Task& t) {
  const int64_t first = t.segment->n_past + t.row;
  return {args.window > 0 ? std::max<int64_t>(0, first - args.window + 1) : 0, first + t.n_rows};
}

/// Blocks of rows of a segment times heads, heads innermost, so that neighbours in the queue read other heads.
int64_t count_tasks(const AttentionArgs& args, const Geometry& g, const AttentionSegment& s) {
  return (s.n_rows + g.rows_a_task - 1) / g.rows_a_task * args.n_kv_heads;
}

int64_t count_tasks(const AttentionArgs& args, const Geometry& g) {
  int64_t n = 0;
  for (const AttentionSegment& s : args.segments) n += count_tasks(args, g, s);
  return n;
}

Geometry make_geometry(const AttentionArgs& args, int n_threads) {
  Geometry g{};
  g.d = args.q.dim(2);
  g.dp = (g.d + 15) / 16 * 16;
  g.group = args.q.dim(1) / args.n_kv_heads;
  for (int64_t rows = kMostQueryRows; rows >= kLeastQueryRows; rows /= 2) {
    g.rows_a_task = std::max<int64_t>(1, rows / g.group);
    g.n_q = g.rows_a_task * g.group;
    if (count_tasks(args, g) >= kTasksAThread * n_threads) break;
  }
  return g;
}

Task find_task(const AttentionArgs& args, const Geometry& g, int64_t index) {
  for (const AttentionSegment& s : args.segments) {
    const int64_t n = count_tasks(args, g, s);
    if (index < n) {
      // Last rows first: they see the most keys, and the longest tasks should not come last.
      const int64_t blocks = n / args.n_kv_heads;
      const int64_t row = (blocks - 1 - index / args.n_kv_heads) * g.rows_a_task;
      return {&s, row, std::min(g.rows_a_task, s.n_rows - row), index % args.n_kv_heads};
    }
    index -= n;
  }
  LOFT_CHECK(false);
  return {};
}

/// Scratch of one task: prepared queries, then attend's scratch, a chunk's state and the total.
struct TaskMemory {
  float* q;
  float* scratch;
  float* part_peak;
  float* part_sum;
  float* part_acc;
  float* total_peak;
  float* total_sum;
  float* total_acc;
};

int64_t state_floats(const Geometry& g) {
  return 2 * padded_rows(g.n_q) + g.n_q * g.dp;
}

int64_t task_floats(const Geometry& g) {
  return g.n_q * g.dp + attend_scratch_floats(g.n_q, g.dp) + 2 * state_floats(g);
}

TaskMemory cut_memory(const Geometry& g, float* p) {
  const int64_t rows = padded_rows(g.n_q);
  TaskMemory m{};
  m.q = p;
  m.scratch = m.q + g.n_q * g.dp;
  m.part_acc = m.scratch + attend_scratch_floats(g.n_q, g.dp);
  m.total_acc = m.part_acc + g.n_q * g.dp;
  m.part_peak = m.total_acc + g.n_q * g.dp;
  m.part_sum = m.part_peak + rows;
  m.total_peak = m.part_sum + rows;
  m.total_sum = m.total_peak + rows;
  return m;
}

AttendArgs prepare(CpuContext& cpu, const AttentionArgs& args, const Geometry& g, const Task& t, const TaskMemory& m) {
  const KvView& kv = t.segment->kv;
  const auto load = cpu.kernels.scale_cast[float_index(args.q.dtype)][float_index(DType::F32)];
  const size_t element = dtype_bytes(args.q.dtype);
  for (int64_t i = 0; i < t.n_rows * g.group; ++i) {
    const int64_t row = t.segment->first_row + t.row + i / g.group;
    const int64_t head = t.head * g.group + i % g.group;
    const int64_t at = row * args.q.stride[0] + head * args.q.stride[1];
    load(args.q.as<uint8_t>() + size_t(at) * element, args.scale, m.q + i * g.dp, g.d);
    std::fill(m.q + i * g.dp + g.d, m.q + (i + 1) * g.dp, 0.0f);
  }
  const size_t head_bytes = size_t(kv.capacity * g.d) * dtype_bytes(kv.dtype);
  return {.q = m.q,
          .n_q = t.n_rows * g.group,
          .group = g.group,
          .first_position = t.segment->n_past + t.row,
          .window = args.window,
          .softcap = args.softcap,
          .k = static_cast<const uint8_t*>(kv.k) + size_t(t.head) * head_bytes,
          .v = static_cast<const uint8_t*>(kv.v) + size_t(t.head) * head_bytes,
          .k_scales = kv.k_scales ? kv.k_scales + t.head * kv.capacity : nullptr,
          .v_scales = kv.v_scales ? kv.v_scales + t.head * kv.capacity : nullptr,
          .capacity = kv.capacity,
          .d = g.d,
          .scratch = m.scratch,
          .peak = m.part_peak,
          .sum = m.part_sum,
          .acc = m.part_acc};
}

void attend_one_chunk(CpuContext& cpu, const Task& t, AttendArgs& a, Span span, int64_t chunk) {
  a.begin = std::max(span.begin, chunk * kKeyChunk);
  a.end = std::min(span.end, (chunk + 1) * kKeyChunk);
  cpu.kernels.attend[kv_index(t.segment->kv.dtype)](a);
}

void write_rows(CpuContext& cpu, const AttentionArgs& args, const Geometry& g, const Task& t, const AttendArgs& total) {
  const auto kernel = cpu.kernels.finish[float_index(args.y.dtype)];
  const size_t element = dtype_bytes(args.y.dtype);
  for (int64_t i = 0; i < total.n_q; ++i) {
    const int64_t row = t.segment->first_row + t.row + i / g.group;
    const int64_t at = row * args.y.stride[0] + (t.head * g.group + i % g.group) * args.y.stride[1];
    kernel(total.acc + i * g.dp, total.sum[i], args.y.as<uint8_t>() + size_t(at) * element, g.d);
  }
}

void run_whole(CpuContext& cpu, const AttentionArgs& args, const Geometry& g, const Task& t, float* memory) {
  const TaskMemory m = cut_memory(g, memory);
  AttendArgs part = prepare(cpu, args, g, t, m);
  AttendArgs total = part;
  total.peak = m.total_peak;
  total.sum = m.total_sum;
  total.acc = m.total_acc;
  const Span span = visible_span(args, t);
  int64_t chunk = span.begin / kKeyChunk;
  attend_one_chunk(cpu, t, total, span, chunk);
  while (++chunk * kKeyChunk < span.end) {
    attend_one_chunk(cpu, t, part, span, chunk);
    cpu.kernels.merge(total, part, g.dp);
  }
  write_rows(cpu, args, g, t, total);
}

/// A decode step with few tasks: each chunk of keys of each task is a task of its own; states meet in shared memory.
void run_split(CpuContext& cpu, const AttentionArgs& args, const Geometry& g, int64_t n_tasks) {
  int64_t chunks = 1;
  for (int64_t i = 0; i < n_tasks; ++i) {
    const Span s = visible_span(args, find_task(args, g, i));
    chunks = std::max(chunks, (s.end - 1) / kKeyChunk - s.begin / kKeyChunk + 1);
  }
  const int64_t state = state_floats(g);
  float* states = cpu.shared.take(n_tasks * chunks * state);
  const auto state_of = [&](AttendArgs& a, int64_t task, int64_t chunk) {
    a.acc = states + (task * chunks + chunk) * state;
    a.peak = a.acc + g.n_q * g.dp;
    a.sum = a.peak + padded_rows(g.n_q);
  };
  cpu.pool.parallel_for(n_tasks * chunks, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const Task t = find_task(args, g, i / chunks);
      const Span span = visible_span(args, t);
      const int64_t chunk = span.begin / kKeyChunk + i % chunks;
      if (chunk * kKeyChunk >= span.end) continue;
      AttendArgs a = prepare(cpu, args, g, t, cut_memory(g, cpu.per_thread[size_t(thread)].take(task_floats(g))));
      state_of(a, i / chunks, i % chunks);
      attend_one_chunk(cpu, t, a, span, chunk);
    }
  });
  for (int64_t i = 0; i < n_tasks; ++i) {
    const Task t = find_task(args, g, i);
    const Span span = visible_span(args, t);
    AttendArgs total{.n_q = t.n_rows * g.group};
    state_of(total, i, 0);
    for (int64_t chunk = 1; (span.begin / kKeyChunk + chunk) * kKeyChunk < span.end; ++chunk) {
      AttendArgs part = total;
      state_of(part, i, chunk);
      cpu.kernels.merge(total, part, g.dp);
    }
    write_rows(cpu, args, g, t, total);
  }
}

}  // namespace

void cpu_attention(CpuContext& cpu, const AttentionArgs& args) {
  const Geometry g = make_geometry(args, cpu.pool.size());
  const int64_t n_tasks = count_tasks(args, g);
  int64_t keys = 0;
  for (const AttentionSegment& s : args.segments) keys = std::max(keys, s.n_past + s.n_rows);
  // Scratch grows here, in the caller, where a failure may throw.
  for (FloatScratch& scratch : cpu.per_thread) scratch.take(task_floats(g));
  const bool is_split = cpu.pool.size() > 1 && n_tasks < 4 * cpu.pool.size() && keys > kKeyChunk;
  if (is_split) {
    run_split(cpu, args, g, n_tasks);
    return;
  }
  cpu.pool.parallel_for(n_tasks, 1, [&](int64_t begin, int64_t end, int thread) {
    float* memory = cpu.per_thread[size_t(thread)].take(task_floats(g));
    for (int64_t i = begin; i < end; ++i) run_whole(cpu, args, g, find_task(args, g, i), memory);
  });
}

}  // namespace loft

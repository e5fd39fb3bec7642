// model: the GGUF reader. One cursor walks the file; nothing is allocated before the bytes for it are known to be
// there.
#include "model/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "core/checked.h"
#include "core/error.h"

namespace loft {
namespace {

constexpr uint64_t kMaxEntries = 1000000;  // tensors, and metadata keys
constexpr uint64_t kMaxKeyBytes = 65535;   // the format's own limit
constexpr uint64_t kMaxNameBytes = 255;    // ggml allows 63
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr uint32_t kVersion = 3;

struct TypeRow {
  const char* name;
  uint64_t bytes;  // 0: not of fixed size
};
constexpr std::array<TypeRow, 13> kTypeRows{{{"uint8", 1},
                                             {"int8", 1},
                                             {"uint16", 2},
                                             {"int16", 2},
                                             {"uint32", 4},
                                             {"int32", 4},
                                             {"float32", 4},
                                             {"bool", 1},
                                             {"string", 0},
                                             {"array", 0},
                                             {"uint64", 8},
                                             {"int64", 8},
                                             {"float64", 8}}};

template <class T>
T load(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Names from a file go into messages: control characters and broken UTF-8 must not reach a terminal.
std::string printable(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, 80)) out += (c >= 32 && c < 127) ? c : '?';
  if (name.size() > 80) out += "...";
  return out;
}

// The number of `type` at p, widened.
void read_number(GgufType type, const uint8_t* p, GgufValue& v) {
  switch (type) {
    case GgufType::U8:
      v.integer = *p;
      return;
    case GgufType::I8:
      v.integer = int8_t(*p);
      return;
    case GgufType::U16:
      v.integer = load<uint16_t>(p);
      return;
    case GgufType::I16:
      v.integer = load<int16_t>(p);
      return;
    case GgufType::U32:
      v.integer = load<uint32_t>(p);
      return;
    case GgufType::I32:
      v.integer = load<int32_t>(p);
      return;
    case GgufType::Bool:
      v.integer = *p;
      return;
    case GgufType::I64:
      v.integer = load<int64_t>(p);
      return;
    case GgufType::F32:
      v.number = double(load<float>(p));
      return;
    case GgufType::F64:
      v.number = load<double>(p);
      return;
    case GgufType::U64:
      v.above_int64 = load<uint64_t>(p) > uint64_t(std::numeric_limits<int64_t>::max());
      v.integer = v.above_int64 ? 0 : int64_t(load<uint64_t>(p));
      return;
    case GgufType::String:
    case GgufType::Array:
      break;
  }
  LOFT_CHECK(!"a number type");
}

bool is_integer(GgufType t) {
  return t != GgufType::F32 && t != GgufType::F64 && t != GgufType::Bool && t != GgufType::String &&
         t != GgufType::Array;
}

class Cursor {
 public:
  Cursor(std::span<const uint8_t> file, std::string_view where) : file_(file), where_(where) {}

  std::span<const uint8_t> take(uint64_t n, std::string_view what) {
    if (n > left()) {
      fail(Code::Corrupt, "{}: {} at byte {}: wanted {} bytes, {} are left", where_, what, at_, n, left());
    }
    const auto bytes = file_.subspan(at_, n);
    at_ += n;
    return bytes;
  }
  template <class T>
  T number(std::string_view what) {
    return load<T>(take(sizeof(T), what).data());
  }
  std::string_view text(std::string_view what, uint64_t max_bytes) {
    const uint64_t n = number<uint64_t>(what);
    if (n > max_bytes) fail(Code::Corrupt, "{}: {}: {} bytes long, at most {} are read", where_, what, n, max_bytes);
    const auto bytes = take(n, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // A count whose entries need at least min_bytes each: a lie is found before anything is reserved.
  uint64_t count(std::string_view what, uint64_t min_bytes, uint64_t max) {
    const uint64_t n = number<uint64_t>(what);
    if (n > max || n > left() / min_bytes) {
      fail(Code::Corrupt, "{}: {}: {}, but {} bytes are left and at most {} are read", where_, what, n, left(), max);
    }
    return n;
  }
  uint64_t left() const { return file_.size() - at_; }
  uint64_t at() const { return at_; }
  std::string_view where() const { return where_; }

 private:
  std::span<const uint8_t> file_;
  std::string_view where_;
  uint64_t at_ = 0;
};

GgufType read_type(Cursor& in, const std::string& key) {
  const uint32_t id = in.number<uint32_t>(key);
  if (id >= kTypeRows.size()) fail(Code::Corrupt, "{}: {}: value type {}, wanted 0 to 12", in.where(), key, id);
  return GgufType(id);
}

void read_array(Cursor& in, const std::string& key, GgufValue& v) {
  v.element = read_type(in, key);
  if (v.element == GgufType::Array) fail(Code::Unsupported, "{}: {}: an array of arrays", in.where(), key);
  const uint64_t bytes = kTypeRows[size_t(v.element)].bytes;
  v.count = in.count(key, bytes ? bytes : 8, std::numeric_limits<uint32_t>::max());
  if (bytes) {
    v.raw = in.take(v.count * bytes, key);
    return;
  }
  v.strings.reserve(v.count);
  for (uint64_t i = 0; i < v.count; ++i) v.strings.push_back(in.text(key, in.left()));
}

GgufValue read_value(Cursor& in, const std::string& key) {
  GgufValue v;
  v.type = read_type(in, key);
  if (v.type == GgufType::String) {
    v.text = in.text(key, in.left());
  } else if (v.type == GgufType::Array) {
    read_array(in, key, v);
  } else {
    read_number(v.type, in.take(kTypeRows[size_t(v.type)].bytes, key).data(), v);
    if (v.type == GgufType::Bool && v.integer > 1) {
      fail(Code::Corrupt, "{}: {}: a bool of value {}, wanted 0 or 1", in.where(), key, v.integer);
    }
  }
  return v;
}

struct Extent {
  uint64_t begin;
  uint64_t end;
  const std::string* name;
};

// One entry of the tensor list, with its bytes still unset: they can only be checked once the data section is known.
GgufTensor read_tensor(Cursor& in, const std::string& name, uint64_t alignment, Extent& extent) {
  GgufTensor t;
  const uint32_t rank = in.number<uint32_t>(name);
  if (rank < 1 || rank > 4) fail(Code::Corrupt, "{}: {}: rank {}, wanted 1 to 4", in.where(), name, rank);
  for (uint32_t i = 0; i < rank; ++i) t.dims.push_back(in.number<uint64_t>(name));
  const uint32_t id = in.number<uint32_t>(name);
  t.type = find_gguf_block_type(id);
  if (!t.type) fail(Code::Unsupported, "{}: {}: tensor type {} is not known", in.where(), name, id);
  const auto n = checked_product(t.dims);
  const uint64_t values = uint64_t(t.type->values);
  if (t.dims[0] % values != 0) {
    fail(Code::Corrupt, "{}: {}: rows of {} values, wanted a multiple of {} ({})", in.where(), name, t.dims[0], values,
         t.type->name);
  }
  const auto bytes = n ? checked_mul(*n / values, uint64_t(t.type->bytes)) : std::nullopt;
  extent.begin = in.number<uint64_t>(name);
  const auto end = bytes ? checked_add(extent.begin, *bytes) : std::nullopt;
  const auto fits_int64 = [](uint64_t d) { return d <= uint64_t(std::numeric_limits<int64_t>::max()); };
  if (!end || !fits_int64(*n) || !std::ranges::all_of(t.dims, fits_int64)) {
    fail(Code::Corrupt, "{}: {}: dims or offset beyond 64 bits", in.where(), name);
  }
  if (extent.begin % alignment != 0) {
    fail(Code::Corrupt, "{}: {}: offset {}, wanted a multiple of {}", in.where(), name, extent.begin, alignment);
  }
  extent.end = *end;
  t.n_values = *n;
  return t;
}

void check_overlap(std::vector<Extent>& extents, std::string_view where) {
  std::ranges::sort(extents, {}, [](const Extent& e) { return std::pair(e.begin, e.end); });
  const Extent* last = nullptr;  // the latest with bytes in it
  for (const Extent& e : extents) {
    if (e.begin == e.end) continue;
    if (last && e.begin < last->end) {
      fail(Code::Corrupt, "{}: {} at {}..{} overlaps {} at {}..{}", where, *e.name, e.begin, e.end, *last->name,
           last->begin, last->end);
    }
    last = &e;
  }
}

void check_header(Cursor& in) {
  const auto magic = in.take(4, "magic");
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    fail(Code::Corrupt, "{}: does not start with GGUF", in.where());
  }
  const uint32_t version = in.number<uint32_t>("version");
  if (version == kVersion) return;
  const bool swapped = __builtin_bswap32(version) <= kVersion;
  fail(Code::Unsupported, "{}: GGUF version {}{}, wanted {}", in.where(),
       swapped ? __builtin_bswap32(version) : version, swapped ? " in big-endian order" : "", kVersion);
}

[[noreturn]] void wrong_type(const std::string& where, std::string_view key, const GgufValue& v, const char* wanted) {
  const bool array = v.type == GgufType::Array;
  fail(Code::Corrupt, "{}: {}: found {}{}, wanted {}", where, key, array ? "an array of " : "",
       gguf_type_name(array ? v.element : v.type), wanted);
}

}  // namespace

const char* gguf_type_name(GgufType type) {
  return kTypeRows[size_t(type)].name;
}

GgufFile GgufFile::open(const std::filesystem::path& path) {
  FileMap map = FileMap::open(path);
  GgufFile file = parse(map.bytes(), path.string());
  file.map_ = std::move(map);
  return file;
}

GgufFile GgufFile::parse(std::span<const uint8_t> bytes, std::string_view where) {
  GgufFile file;
  file.where_ = where;
  Cursor in(bytes, file.where_);
  check_header(in);
  // Smallest entries: a tensor has name length, rank, one dim, type, offset; a key has its length, a type and one byte.
  const uint64_t n_tensors = in.count("tensor count", 8 + 4 + 8 + 4 + 8, kMaxEntries);
  const uint64_t n_keys = in.count("metadata count", 8 + 4 + 1, kMaxEntries);
  for (uint64_t i = 0; i < n_keys; ++i) {
    const std::string key(in.text("metadata key", kMaxKeyBytes));
    const std::string shown = printable(key);
    if (!file.metadata_.try_emplace(key, read_value(in, shown)).second) {
      fail(Code::Corrupt, "{}: the key {} stands twice", where, shown);
    }
  }
  const int64_t alignment = file.find_int("general.alignment").value_or(32);
  if (alignment < 1 || uint64_t(alignment) > kMaxAlignment || !std::has_single_bit(uint64_t(alignment))) {
    fail(Code::Corrupt, "{}: general.alignment {}, wanted a power of two up to {}", where, alignment, kMaxAlignment);
  }
  std::vector<Extent> extents;
  for (uint64_t i = 0; i < n_tensors; ++i) {
    const std::string name(in.text("tensor name", kMaxNameBytes));
    if (name != printable(name)) fail(Code::Corrupt, "{}: tensor name {} is not plain text", where, printable(name));
    Extent extent{};
    const auto [it, is_new] = file.tensors_.try_emplace(name, read_tensor(in, name, uint64_t(alignment), extent));
    if (!is_new) fail(Code::Corrupt, "{}: the tensor {} stands twice", where, name);
    extent.name = &it->first;
    extents.push_back(extent);
  }
  if (extents.empty()) return file;
  const uint64_t past = in.at() % uint64_t(alignment);
  in.take(past ? uint64_t(alignment) - past : 0, "padding before the data");
  const auto data = in.take(in.left(), "data");
  for (const Extent& e : extents) {
    if (e.end > data.size()) {
      fail(Code::Corrupt, "{}: {}: ends at byte {} of the data, which has {}", where, *e.name, e.end, data.size());
    }
    file.tensors_.find(*e.name)->second.bytes = data.subspan(e.begin, e.end - e.begin);
  }
  check_overlap(extents, where);
  return file;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

std::optional<int64_t> GgufFile::find_int(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return std::nullopt;
  if (!is_integer(v->type) || v->above_int64) wrong_type(where_, key, *v, "an integer of 63 bits");
  return v->integer;
}

std::optional<double> GgufFile::find_number(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return std::nullopt;
  if (v->type != GgufType::F32 && v->type != GgufType::F64) wrong_type(where_, key, *v, "a float");
  return v->number;
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return std::nullopt;
  if (v->type != GgufType::Bool) wrong_type(where_, key, *v, "a bool");
  return v->integer != 0;
}

std::optional<std::string> GgufFile::find_text(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return std::nullopt;
  if (v->type != GgufType::String) wrong_type(where_, key, *v, "a string");
  return std::string(v->text);
}

const std::vector<std::string_view>* GgufFile::find_texts(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return nullptr;
  if (v->type != GgufType::Array || v->element != GgufType::String) wrong_type(where_, key, *v, "an array of string");
  return &v->strings;
}

std::optional<std::vector<int64_t>> GgufFile::find_ints(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return std::nullopt;
  if (v->type != GgufType::Array || !is_integer(v->element)) wrong_type(where_, key, *v, "an array of integers");
  std::vector<int64_t> out(v->count);
  const uint64_t bytes = kTypeRows[size_t(v->element)].bytes;
  GgufValue one;
  for (uint64_t i = 0; i < v->count; ++i) {
    read_number(v->element, v->raw.data() + i * bytes, one);
    if (one.above_int64) wrong_type(where_, key, *v, "integers of 63 bits");
    out[i] = one.integer;
  }
  return out;
}

std::optional<std::vector<double>> GgufFile::find_numbers(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return std::nullopt;
  if (v->type != GgufType::Array || (v->element != GgufType::F32 && v->element != GgufType::F64)) {
    wrong_type(where_, key, *v, "an array of floats");
  }
  std::vector<double> out(v->count);
  const uint64_t bytes = kTypeRows[size_t(v->element)].bytes;
  GgufValue one;
  for (uint64_t i = 0; i < v->count; ++i) {
    read_number(v->element, v->raw.data() + i * bytes, one);
    out[i] = one.number;
  }
  return out;
}

int64_t GgufFile::take_int(std::string_view key) const {
  const auto v = find_int(key);
  if (!v) fail(Code::Corrupt, "{}: {}: missing, wanted an integer", where_, key);
  return *v;
}

double GgufFile::take_number(std::string_view key) const {
  const auto v = find_number(key);
  if (!v) fail(Code::Corrupt, "{}: {}: missing, wanted a float", where_, key);
  return *v;
}

std::string GgufFile::take_text(std::string_view key) const {
  const auto v = find_text(key);
  if (!v) fail(Code::Corrupt, "{}: {}: missing, wanted a string", where_, key);
  return *v;
}

}  // namespace loft

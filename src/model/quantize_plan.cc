// model: formats and config of a quantized checkpoint. See quantize_plan.h.
#include "model/quantize_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file_map.h"

namespace loft {
namespace {

struct RecipeRow {
  const char* name;
  int low_bits;
  int high_bits;
};
constexpr RecipeRow kRecipes[] = {
    {"mixed_2_6", 2, 6},
    {"mixed_3_4", 3, 4},
    {"mixed_3_6", 3, 6},
    {"mixed_4_6", 4, 6},
};
constexpr const char* kRecipeNames[] = {"mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"};
static_assert(std::size(kRecipes) == std::size(kRecipeNames));

constexpr const char* kHighBitParts[] = {"v_proj", "v_a_proj", "v_b_proj", "down_proj"};

const RecipeRow* find_recipe(std::string_view name) {
  const auto it = std::ranges::find_if(kRecipes, [&](const RecipeRow& row) { return name == row.name; });
  return it == std::end(kRecipes) ? nullptr : &*it;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The first number between dots, the index of the layer; 0 for a path without one, as mlx-lm has it.
int64_t layer_of(std::string_view path) {
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('.'));
    int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (error == std::errc() && end == part.data() + part.size()) return index;
    path.remove_prefix(std::min(part.size() + 1, path.size()));
  }
  return 0;
}

// The choice of mlx-lm's mixed recipes (after llama.cpp's Q4_K_M): more bits for the head, and for v_proj and down_proj
// in the first and last eighth of the layers and every third one between.
int recipe_bits(const RecipeRow& recipe, std::string_view path, int64_t n_layers) {
  const int64_t layer = layer_of(path);
  const int64_t eighth = n_layers / 8;
  const bool is_chosen_layer = layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
  const auto is_part = [&](const char* part) { return contains(path, part); };
  const bool is_chosen_module = std::ranges::any_of(kHighBitParts, is_part);
  return contains(path, "lm_head") || (is_chosen_layer && is_chosen_module) ? recipe.high_bits : recipe.low_bits;
}

// The float type that mlx-lm would cast to: asked for, torch_dtype, or text_config's dtype; nullopt keeps what is
// stored.
std::optional<DType> target_dtype(const QuantizeRequest& request, const OrderedJson& json) {
  if (request.dtype) return request.dtype;
  const std::map<std::string, DType> names = {
      {"float16", DType::F16}, {"bfloat16", DType::BF16}, {"float32", DType::F32}};
  const auto read = [&](const OrderedJson& object, const char* key) -> std::optional<std::string> {
    const auto it = object.find(key);
    if (!object.is_object() || it == object.end() || !it->is_string()) return std::nullopt;
    return it->template get<std::string>();
  };
  std::optional<std::string> word = read(json, "torch_dtype");
  const auto text_config = json.find("text_config");
  if (!word && text_config != json.end()) word = read(*text_config, "dtype");
  const auto it = word ? names.find(*word) : names.end();
  return it == names.end() ? std::nullopt : std::optional(it->second);
}

DType stored_dtype(const QuantWeight& w) {
  if (w.format.kind == QuantKind::Dense) return w.dense_dtype;
  return w.format.kind == QuantKind::Affine ? w.scale_dtype : DType::BF16;  // MLX decodes the fp modes to bf16
}

QuantFormat dense_format(DType dtype) {
  return {.kind = QuantKind::Dense, .bits = int(8 * dtype_bytes(dtype)), .group = 0};
}

void plan_tensors(const StoredModule& module, ModulePlan& plan) {
  const std::string& path = module.shape.path;
  const uint64_t n = uint64_t(module.weight.n), k = uint64_t(module.weight.k);
  if (module.shape.kind == ModuleKind::Norm) {
    plan.tensors = {{path + ".weight", plan.dtype, {k}}};
  } else if (plan.format.kind == QuantKind::Dense) {
    plan.tensors = {{path + ".weight", plan.dtype, {n, k}}};
  } else {
    const FormatRow& row = format_row(plan.format.kind);
    const std::vector<uint64_t> side = {n, k / uint64_t(plan.format.group)};
    const DType side_dtype = row.has_biases ? plan.dtype : DType::U8;
    plan.tensors = {{path + ".weight", DType::U32, {n, k * uint64_t(plan.format.bits) / 32}},
                    {path + ".scales", side_dtype, side}};
    if (row.has_biases) plan.tensors.push_back({path + ".biases", side_dtype, side});
  }
  if (module.bias) plan.tensors.push_back({path + ".bias", plan.bias_dtype, {uint64_t(module.shape.n)}});
}

// mlx-lm's order of keys in an entry.
OrderedJson settings(const QuantFormat& format) {
  return {{"group_size", format.group}, {"bits", format.bits}, {"mode", format_row(format.kind).name}};
}

}  // namespace

std::span<const char* const> quantize_recipes() {
  return kRecipeNames;
}

void check_quantize_request(const QuantizeRequest& request) {
  if (request.dtype && !is_float(*request.dtype)) {
    fail(Code::BadRequest, "dtype {}: wanted f32, f16 or bf16", dtype_name(*request.dtype));
  }
  if (request.format.kind == QuantKind::Dense || !is_valid(request.format)) {
    fail(Code::Unsupported, "cannot quantize to mode {}, {} bits, group {}; wanted one of {}",
         format_row(request.format.kind).name, request.format.bits, request.format.group, quant_mode_choices());
  }
  if (request.recipe.empty()) return;
  if (!find_recipe(request.recipe)) {
    fail(Code::BadRequest, "recipe {}: wanted one of {}", request.recipe, fmt::join(kRecipeNames, ", "));
  }
  if (request.format.kind != QuantKind::Affine) {
    fail(Code::BadRequest, "recipe {}: recipes are for mode affine, not {}", request.recipe,
         format_row(request.format.kind).name);
  }
}

std::vector<ModulePlan> plan_modules(const QuantizeRequest& request, const ModelConfig& config, const OrderedJson& json,
                                     const std::vector<StoredModule>& modules) {
  const RecipeRow* recipe = find_recipe(request.recipe);
  const std::optional<DType> dtype = target_dtype(request, json);
  std::vector<ModulePlan> plans;
  for (const StoredModule& module : modules) {
    const QuantWeight& w = module.weight;
    ModulePlan plan;
    plan.dtype = dtype.value_or(stored_dtype(w));
    if (module.bias) plan.bias_dtype = dtype.value_or(*module.bias->dtype);
    plan.format = dense_format(plan.dtype);
    if (module.shape.kind != ModuleKind::Norm && w.k % request.format.group == 0) {
      plan.format = request.format;
      if (recipe) plan.format.bits = recipe_bits(*recipe, module.shape.path, config.n_layers);
    }
    const bool same_scales = w.format.kind != QuantKind::Affine || w.scale_dtype == plan.dtype;
    plan.is_copy =
        w.format.kind != QuantKind::Dense && w.format == plan.format && same_scales && w.global_scale == 1.0f;
    plan_tensors(module, plan);
    plans.push_back(std::move(plan));
  }
  return plans;
}

void write_quantized_config(const QuantizeRequest& request, OrderedJson json, const std::vector<StoredModule>& modules,
                            const std::vector<ModulePlan>& plans, const std::filesystem::path& path) {
  OrderedJson dict = settings(request.format);
  if (!request.recipe.empty()) {
    for (size_t i = 0; i < modules.size(); ++i) {
      if (plans[i].format.kind != QuantKind::Dense) dict[modules[i].shape.path] = settings(plans[i].format);
    }
  }
  for (const char* gone : {"_name_or_path", "vision_config", "quantization", "quantization_config"}) json.erase(gone);
  if (const auto inner = json.find("text_config"); inner != json.end() && inner->is_object()) {
    for (const char* gone : {"quantization", "quantization_config"}) inner->erase(gone);
  }
  std::map<std::string, OrderedJson> sorted;
  for (const auto& [key, value] : json.items()) sorted.emplace(key, value);
  sorted["quantization"] = dict;
  sorted["quantization_config"] = dict;
  OrderedJson out = OrderedJson::object();
  for (const auto& [key, value] : sorted) out[key] = value;
  write_text_file(path, dump_json(out, 4));
}

}  // namespace loft

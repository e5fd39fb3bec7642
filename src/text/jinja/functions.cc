// text/jinja: the global functions of the templates' environment.
#include <ctime>

#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace loft::jinja {
namespace {

constexpr Int kMaxRange = 100000;  // as in jinja2's sandbox

Value raise_exception(Evaluator&, const Args& args) {
  const Params p("raise_exception", args, {"message"}, 1);
  bad("{}", to_text(p[0]));
}

// A time without a zone: Python shows %z and %Z as nothing; %f are its microseconds, which C does not know.
std::string without_python_fields(const std::string& format) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    const char c = i + 1 < format.size() && format[i] == '%' ? format[i + 1] : '\0';
    if (c == 'f') {
      out += "000000";
    } else if (c && c != 'z' && c != 'Z') {
      out.append(format, i, 2);
    }
    if (c) {
      ++i;
    } else {
      out += format[i];
    }
  }
  return out;
}

Value strftime_now(Evaluator& ev, const Args& args) {
  const Params p("strftime_now", args, {"format"}, 1);
  const std::string& format = text_argument(p[0], "strftime_now");
  if (format.size() > 1000) bad("strftime_now: a format of {} bytes", format.size());
  const std::time_t now = ev.now_unix() ? std::time_t(*ev.now_unix()) : std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::string text(format.size() * 8 + 256, '\0');
  const std::string marked = without_python_fields(format) + '.';  // so that an empty answer is no error
  const size_t n = std::strftime(text.data(), text.size(), marked.c_str(), &local);
  if (n == 0) bad("strftime_now: the format {} is not understood", repr_of_string(format));
  text.resize(n - 1);
  return ev.text(std::move(text));
}

Value range_function(Evaluator& ev, const Args& args) {
  if (!args.keywords.empty()) bad("range() takes no keyword arguments");
  const Params p("range", args, {"start", "stop", "step"}, 1);
  RangeValue range;
  range.stop = int_argument(p[0], "range");
  if (p.has(1)) {
    range.start = range.stop;
    range.stop = int_argument(p[1], "range");
  }
  if (p.has(2)) range.step = int_argument(p[2], "range");
  if (range.step == 0) bad("range() arg 3 must not be zero");
  constexpr Int kFar = Int(1) << 80;
  for (Int bound : {range.start, range.stop, range.step}) {
    if (bound > kFar || bound < -kFar) bad("range too big");
  }
  if (range.size() > kMaxRange) bad("range too big: more than {} items", int_text(kMaxRange));
  ev.budget().spend(1);
  return Value::holding(Kind::Range, std::make_shared<RangeValue>(range));
}

// dict(pairs or mapping, key=value...): also what namespace() takes.
Dict dict_of(Evaluator& ev, const Args& args) {
  if (args.positional.size() > 1) bad("dict expected at most 1 argument, got {}", args.positional.size());
  Dict dict;
  if (!args.positional.empty() && args.positional[0].is(Kind::Dict)) {
    dict = args.positional[0].get<Dict>();
    ev.budget().spend(int64_t(dict.items.size()));
  } else if (!args.positional.empty()) {
    for (const Value& pair : ev.items_of(args.positional[0])) {
      const Items two = ev.items_of(pair);
      if (two.size() != 2) bad("dict: a pair has {} items", two.size());
      dict.set(two[0], two[1]);
    }
  }
  for (const auto& [name, value] : args.keywords) dict.set(Value::string(name), value);
  return dict;
}

Value dict_function(Evaluator& ev, const Args& args) {
  return make_dict(dict_of(ev, args));
}

Value namespace_function(Evaluator& ev, const Args& args) {
  auto ns = std::make_shared<Namespace>();
  for (const auto& [key, value] : dict_of(ev, args).items) {
    if (!key.is_string()) bad("namespace: a name is needed, not '{}'", type_name(key));
    if (key.text().starts_with('_')) bad("a namespace cannot hold the attribute '{}'", key.text());
    ns->set(key.text(), value);
  }
  ev.keep(ns);
  return Value::holding(Kind::Namespace, ns);
}

Value joiner_function(Evaluator&, const Args& args) {
  const Params p("joiner", args, {"sep"});
  if (p.has(0)) extent_around({p[0]});  // refuses what nests too deeply
  return Value::holding(Kind::Joiner,
                        std::make_shared<JoinerState>(JoinerState{p.has(0) ? p[0] : Value::string(", "), false}));
}

Value cycler_function(Evaluator&, const Args& args) {
  if (!args.keywords.empty()) bad("cycler() takes no keyword arguments");
  if (args.positional.empty()) bad("at least one item has to be provided");
  return Value::holding(Kind::Cycler,
                        std::make_shared<CyclerState>(CyclerState{args.positional, 0, extent_around(args.positional)}));
}

constexpr FunctionRow kFunctions[] = {
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"range", range_function},
    {"dict", dict_function},
    {"namespace", namespace_function},
    {"joiner", joiner_function},
    {"cycler", cycler_function},
};

}  // namespace

const FunctionRow* find_function(std::string_view name) {
  for (const FunctionRow& row : kFunctions) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace loft::jinja

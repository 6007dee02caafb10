#include "why.h"

#include <algorithm>

namespace gd2fs::serve {
namespace {

constexpr std::size_t DEPARTURES_TOLD = 64;
constexpr std::size_t SEGMENTS_LOOKED_AT = 65'536;

/// Text as JSON has it. Bytes that are no ASCII stand for themselves, one by one.
std::string quoted(std::string_view text) {
  static constexpr char DIGITS[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    const bool is_plain = byte >= 0x20 && byte < 0x7f && each != '"' && each != '\\';
    if (is_plain) {
      out += each;
      continue;
    }
    out += "\\u00";
    out += DIGITS[byte >> 4];
    out += DIGITS[byte & 15];
  }
  return out + '"';
}

/// An object, field by field.
class Fields {
 public:
  Fields& add(std::string_view name, std::uint64_t number) {
    return put(name, std::to_string(number));
  }
  Fields& add(std::string_view name, std::string_view text) { return put(name, quoted(text)); }
  Fields& put(std::string_view name, std::string_view json) {
    text_ += (text_.empty() ? "" : ",") + quoted(name) + ":";
    text_ += json;
    return *this;
  }
  std::string object() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

std::string departure_text(const Departure& each, const Rights& asker) {
  const bool is_told = asker.may(Right::read, each.for_whom);
  return Fields()
      .add("when_ms", static_cast<std::uint64_t>(each.when_ms))
      .add("cause", cause_name(each.cause))
      .add("policy", policy_name(each.policy))
      .add("for_whom", is_told ? std::string_view(each.for_whom) : std::string_view())
      .add("chunk", each.chunk)
      .add("tag", each.tag)
      .add("bytes", each.bytes)
      .object();
}

bool is_owner(const Node& node, std::string_view name, bool is_page) {
  const ClusterViewRef view = node.view();
  if (view->placement.is_empty()) return true;
  if (!is_page) return true;  // its chunks lie on many nodes
  const auto owners = view->placement.owners(name, 0, view->placement.replicas(name));
  return std::any_of(owners.begin(), owners.end(),
                     [&](std::uint32_t at) { return view->map.nodes[at].id == node.id; });
}

std::string file_text(Node& node, std::string_view path) {
  wire::MetaBody body;
  bool is_cut = false;
  const RecordAnswer record =
      node.records.meta(path, 0, FILE_BYTES_MAX, SEGMENTS_LOOKED_AT, body, is_cut);
  Fields fields;
  fields.add("status", status_name(record.status));
  if (record.status != Status::ok) return fields.object();
  std::uint64_t listed = 0;
  for (const wire::Segment& each : body.segments) listed += each.length;
  return fields.add("size", record.size)
      .add("ttl_s", body.ttl_s)
      .add("chunk_bytes", record.chunk_bytes)
      .add("listed_bytes", is_cut ? record.size : listed)
      .object();
}

std::string ranges_text(const std::vector<Store::Holding::Range>& ranges) {
  std::string text;
  for (const auto& each : ranges) {
    text += text.empty() ? "[" : ",[";
    text += std::to_string(each.chunk) + "," + std::to_string(each.offset) + "," +
            std::to_string(each.length) + "]";
  }
  return "[" + text + "]";
}

}  // namespace

std::string why_text(Node& node, std::string_view name, bool is_page, const Rights& asker) {
  const Store::Holding here = node.store->holding_of(name, is_page);
  const Departures& departures = node.store->departures();
  std::string gone;
  for (const Departure& each : departures.find(name, DEPARTURES_TOLD))
    gone += (gone.empty() ? "" : ",") + departure_text(each, asker);
  const RulesRef rules = node.store->rules_of(name, is_page);
  Fields fields;
  fields.add("node", node.options.name)
      .add("boot", node.options.boot)
      .add("pieces", here.pieces)
      .add("memory_bytes", here.memory_bytes)
      .add("disk_bytes", here.disk_bytes)
      .add("pinned_bytes", here.pinned_bytes)
      .put("ranges", ranges_text(here.ranges))
      .add("copies", here.replicas != 0 ? here.replicas : node.view()->placement.replicas(name))
      .add("policy", policy_name(rules->policy))
      .put("is_owner", is_owner(node, name, is_page) ? "true" : "false")
      .add("since_ms", static_cast<std::uint64_t>(departures.since_ms()))
      .put("has_forgotten", departures.has_forgotten() ? "true" : "false")
      .put("departures", "[" + gone + "]");
  if (!is_page) fields.put("record", file_text(node, name));
  return fields.object();
}

}  // namespace gd2fs::serve

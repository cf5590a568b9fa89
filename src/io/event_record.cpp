#include "io/event_record.h"

#include <array>
#include <bit>

namespace wholestep::io {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kReversedPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ (remainder & 1 ? kReversedPolynomial : 0);
    table[byte] = remainder;
  }
  return table;
}

template <class T>
void append_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i));
}

/// A CRC of data that holds CRCs is weak, so TFRecord stores it rotated with an offset.
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

// The wire types of protobuf that scalars need.
enum class Wire : std::uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// A protobuf message under construction.
class Message {
 public:
  void add_varint(std::uint32_t field, std::uint64_t value) {
    key(field, Wire::varint);
    varint(value);
  }
  void add_double(std::uint32_t field, double value) {
    key(field, Wire::fixed64);
    append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
  }
  void add_float(std::uint32_t field, float value) {
    key(field, Wire::fixed32);
    append_little_endian(bytes_, std::bit_cast<std::uint32_t>(value));
  }
  void add_bytes(std::uint32_t field, std::string_view value) {
    key(field, Wire::bytes);
    varint(value.size());
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(std::uint32_t field, Wire wire) { varint(field << 3 | static_cast<std::uint32_t>(wire)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// Field numbers of tensorboard/compat/proto: event.proto and summary.proto.
namespace event {
constexpr std::uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace summary {
constexpr std::uint32_t kValue = 1;
}
namespace value {
constexpr std::uint32_t kTag = 1, kSimpleValue = 2;
}
namespace session_log {
constexpr std::uint32_t kStatus = 1, kStart = 1;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

std::string tf_record(std::string_view data) {
  std::string record;
  append_little_endian(record, std::uint64_t{data.size()});
  append_little_endian(record, masked_crc(record));
  record += data;
  append_little_endian(record, masked_crc(data));
  return record;
}

std::string version_event(double wall_time) {
  Message message;
  message.add_double(event::kWallTime, wall_time);
  message.add_bytes(event::kFileVersion, "brain.Event:2");
  return message.bytes();
}

std::string start_event(double wall_time, std::int64_t step) {
  Message log;
  log.add_varint(session_log::kStatus, session_log::kStart);
  Message message;
  message.add_double(event::kWallTime, wall_time);
  if (step != 0) message.add_varint(event::kStep, static_cast<std::uint64_t>(step));
  message.add_bytes(event::kSessionLog, log.bytes());
  return message.bytes();
}

std::string scalar_event(double wall_time, std::int64_t step,
                         const std::vector<std::pair<std::string, double>>& values) {
  Message scalars;
  for (const auto& [tag, number] : values) {
    Message scalar;
    scalar.add_bytes(value::kTag, tag);
    scalar.add_float(value::kSimpleValue, static_cast<float>(number));
    scalars.add_bytes(summary::kValue, scalar.bytes());
  }
  Message message;
  message.add_double(event::kWallTime, wall_time);
  // As every protobuf writer, leaves out a number that has its default.
  if (step != 0) message.add_varint(event::kStep, static_cast<std::uint64_t>(step));
  message.add_bytes(event::kSummary, scalars.bytes());
  return message.bytes();
}

}  // namespace wholestep::io

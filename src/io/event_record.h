#pragma once
// The bytes of an event file: TFRecord framing around Event messages of TensorBoard, written without protobuf.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wholestep::io {

/// CRC-32C (Castagnoli, RFC 3720) of `bytes`.
std::uint32_t crc32c(std::string_view bytes);

/// `data` as a TFRecord: length (u64), masked CRC of those eight bytes, data, masked CRC of the data; little endian.
std::string tf_record(std::string_view data);

/// Event{wall_time, file_version = "brain.Event:2"}: the first record of a file.
std::string version_event(double wall_time);
/// Event{wall_time, step, session_log = SessionLog{status = START}}: what came before has no values from `step` on.
std::string start_event(double wall_time, std::int64_t step);
/// Event{wall_time, step, summary = Summary{value = [Value{tag, simple_value}...]}}.
std::string scalar_event(double wall_time, std::int64_t step,
                         const std::vector<std::pair<std::string, double>>& values);

}  // namespace wholestep::io

// Writes a tiny data set in the form of MNIST into the folder named by its argument: 10 classes of 28 x 28 images, each
// with a bright band at the height that is its label, and noise. 650 to train with, so that the last batch of 64 is
// partial; 100 to test.
#include <wholestep/io.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace {

constexpr std::uint32_t kSide = 28;

std::string idx_header(const std::vector<std::uint32_t>& extents) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(extents.size())};
  for (const std::uint32_t extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(extent >> shift);
  }
  return bytes;
}

void write(const std::string& path, const std::string& bytes) {
  wholestep::io::write_file_atomically(path, {{bytes.data(), bytes.size()}});
}

void write_split(const std::string& folder, const std::string& prefix, std::uint32_t count, std::uint32_t noise) {
  std::string images = idx_header({count, kSide, kSide}), labels = idx_header({count});
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t label = i % 10;
    labels += static_cast<char>(label);
    for (std::uint32_t row = 0; row < kSide; ++row) {
      for (std::uint32_t column = 0; column < kSide; ++column) {
        noise = noise * 1664525 + 1013904223;
        const std::uint32_t band = row / 2 == label + 2 ? 160 : 0;
        images += static_cast<char>(band + (noise >> 24) % 96);
      }
    }
  }
  write(folder + "/" + prefix + "-images-idx3-ubyte", images);
  write(folder + "/" + prefix + "-labels-idx1-ubyte", labels);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::invalid_argument("usage: make_tiny_images FOLDER");
  std::filesystem::create_directories(argv[1]);
  write_split(argv[1], "train", 650, 1);
  write_split(argv[1], "t10k", 100, 2);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

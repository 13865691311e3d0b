// SHA-256, as FIPS 180-4 defines it: hashes a file before it is used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// The digest of the bytes, in hexadecimal.
inline std::string sha256(const std::vector<char>& content) {
    static constexpr std::array<std::uint32_t, 64> constants{
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    std::array<std::uint32_t, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const auto turned = [](std::uint32_t word, int bits) { return word >> bits | word << (32 - bits); };
    const auto add_block = [&](const unsigned char* block) {
        std::array<std::uint32_t, 64> words{};
        for (std::size_t i = 0; i < 16; ++i)
            for (std::size_t j = 0; j < 4; ++j) words[i] = words[i] << 8 | block[4 * i + j];
        for (std::size_t i = 16; i < 64; ++i) {
            const std::uint32_t a = words[i - 15], b = words[i - 2];
            words[i] = words[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + words[i - 7] +
                       (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
        }
        auto [a, b, c, d, e, f, g, h] = state;
        for (std::size_t i = 0; i < 64; ++i) {
            const std::uint32_t first = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) +
                                        constants[i] + words[i];
            const std::uint32_t second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
        }
        const std::array<std::uint32_t, 8> after{a, b, c, d, e, f, g, h};
        for (std::size_t i = 0; i < 8; ++i) state[i] += after[i];
    };
    const auto* bytes = reinterpret_cast<const unsigned char*>(content.data());
    const std::size_t whole = content.size() / 64 * 64;
    for (std::size_t place = 0; place < whole; place += 64) add_block(bytes + place);
    std::vector<unsigned char> rest(bytes + whole, bytes + content.size());
    rest.push_back(0x80);
    while (rest.size() % 64 != 56) rest.push_back(0);
    for (int shift = 56; shift >= 0; shift -= 8)
        rest.push_back(static_cast<unsigned char>(std::uint64_t{content.size()} * 8 >> shift));
    for (std::size_t place = 0; place < rest.size(); place += 64) add_block(rest.data() + place);
    std::string text;
    for (const std::uint32_t word : state)
        for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
    return text;
}

// Self-test with XRT's native API:  selftest CORE.xclbin CORE selftest.bin  (status 0: all bits are golden's).
#include "fabtune_selftest.h"

// XRT of 2025 and later has it beside its other headers; until then the folder stood beside theirs.
#if __has_include(<xrt/experimental/xrt_ip.h>)
#include <xrt/experimental/xrt_ip.h>
#else
#include <experimental/xrt_ip.h>
#endif
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>

namespace {

struct Board {
    xrt::ip ip;
    xrt::bo memory;
};

uint32_t read_register(void *context, uint32_t offset) { return static_cast<Board *>(context)->ip.read_register(offset); }

void write_register(void *context, uint32_t offset, uint32_t value) {
    static_cast<Board *>(context)->ip.write_register(offset, value);
}

void sync(void *context, int for_core) {
    static_cast<Board *>(context)->memory.sync(for_core ? XCL_BO_SYNC_BO_TO_DEVICE : XCL_BO_SYNC_BO_FROM_DEVICE);
}

uint64_t now(void *) {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 4) {
        std::cerr << "usage: " << arguments[0] << " CORE.xclbin CORE selftest.bin\n";
        return 2;
    }
    struct fabtune_selftest test = ::fabtune_selftest;
    test.clock_hz = 0;  // the linker of Vitis chooses the clock
    try {
        xrt::device device(0);
        const auto uuid = device.load_xclbin(arguments[1]);
        // group 0: an embedded platform has one memory
        Board board{xrt::ip(device, uuid, arguments[2]), xrt::bo(device, test.memory_size, 0)};
        auto *bytes = board.memory.map<unsigned char *>();
        std::memset(bytes, 0, test.memory_size);
        std::ifstream image(arguments[3], std::ios::binary);
        if (!image.read(reinterpret_cast<char *>(bytes), static_cast<std::streamsize>(test.image_size))) {
            std::cerr << arguments[3] << " is not there, or not the file that belongs to this program\n";
            return 2;
        }
        const fabtune_core core{read_register, write_register, nullptr, &board, 0, now};
        fabtune_report report;
        const auto result = fabtune_selftest_run(&core, &test, bytes, board.memory.address(), sync, &report);
        if (report.hertz) std::cout << "clock: " << report.hertz / 1e6 << " MHz\n";
        if (result == FABTUNE_DONE) {
            std::cout << "self-test: all " << test.stage_count << " stages are right\n";
            return 0;
        }
        std::cerr << std::hex << std::showbase << "self-test: ";
        if (result == FABTUNE_OTHER_CORE) {
            std::cerr << "this is not the bitstream of " << test.signature << "\n";
            return 1;
        }
        if (result == FABTUNE_NOT_RESET) {
            std::cerr << "the core cannot be reset, as memory does not answer: load the bitstream again\n";
            return 1;
        }
        std::cerr << "stage " << std::dec << report.stage + 1 << std::hex << ", " << test.stages[report.stage].name << ": ";
        if (result == FABTUNE_DIFFERENT)
            std::cerr << report.what << " is " << report.found << ", golden says " << report.expected << "\n";
        else
            std::cerr << "result " << result << ", error " << std::dec << report.end.error << std::hex << " at "
                      << report.end.address << "\n";
        return 1;
    } catch (const std::exception &problem) {
        std::cerr << problem.what() << "\n";
        return 2;
    }
}

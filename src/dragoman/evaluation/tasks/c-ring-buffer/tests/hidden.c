#include "ring.h"

#include <stdio.h>

int main(void)
{
    /* Compared with a plain count over many sizes of reads and writes. */
    for (size_t write = 1; write <= 9; write++) {
        for (size_t read = 1; read <= 9; read++) {
            struct ring ring = {{0}, 0, 0};
            unsigned char next = 0, expected = 0, in[9], out[9];
            for (int turn = 0; turn < 100; turn++) {
                for (size_t at = 0; at < write; at++) in[at] = (unsigned char)(next + at);
                size_t used = ring.used, room = RING_SIZE - used;
                size_t wrote = ring_write(&ring, in, write);
                if (wrote != (write < room ? write : room)) return puts("it takes a wrong number of bytes"), 1;
                next = (unsigned char)(next + wrote);
                size_t got = ring_read(&ring, out, read);
                for (size_t at = 0; at < got; at++, expected++)
                    if (out[at] != expected) return puts("the order is wrong"), 1;
            }
        }
    }
    puts("to the end"); /* the code under test may exit */
    return 0;
}

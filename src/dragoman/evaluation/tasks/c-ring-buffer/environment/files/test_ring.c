#include "ring.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    struct ring ring = {{0}, 0, 0};
    unsigned char out[16];
    if (ring_write(&ring, (const unsigned char *)"abcdefghij", 10) != 8) return puts("it does not take 8 bytes"), 1;
    if (ring_read(&ring, out, 5) != 5 || memcmp(out, "abcde", 5)) return puts("the first read is wrong"), 1;
    if (ring_write(&ring, (const unsigned char *)"123", 3) != 3) return puts("there is no room"), 1;
    if (ring_read(&ring, out, 16) != 6 || memcmp(out, "fgh123", 6)) return puts("the order is wrong"), 1;
    return 0;
}

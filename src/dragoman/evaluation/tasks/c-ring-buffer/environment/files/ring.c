#include "ring.h"

size_t ring_write(struct ring *ring, const unsigned char *from, size_t count)
{
    size_t done = 0;
    while (done < count && ring->used < RING_SIZE - 1) {
        ring->bytes[(ring->start + ring->used) % RING_SIZE] = from[done++];
        ring->used++;
    }
    return done;
}

size_t ring_read(struct ring *ring, unsigned char *to, size_t count)
{
    size_t done = 0;
    while (done < count && ring->used > 0) {
        to[done++] = ring->bytes[ring->start];
        ring->start = (ring->start + 1) % (RING_SIZE - 1);
        ring->used--;
    }
    return done;
}

#ifndef RING_H
#define RING_H

#include <stddef.h>

#define RING_SIZE 8

struct ring {
    unsigned char bytes[RING_SIZE];
    size_t start;
    size_t used;
};

/* Adds as many bytes as there is room for; returns how many. */
size_t ring_write(struct ring *ring, const unsigned char *from, size_t count);
/* Takes up to count bytes, the oldest first; returns how many. */
size_t ring_read(struct ring *ring, unsigned char *to, size_t count);

#endif

/* Check: a rule that holds, or the program ends with its place and text. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(rule)                                                             \
  do {                                                                          \
    if (!(rule)) {                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #rule); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

#endif

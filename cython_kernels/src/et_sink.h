#ifndef ET_SINK_H
#define ET_SINK_H
typedef struct et_sink et_sink;
#endif

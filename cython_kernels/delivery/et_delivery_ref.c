/* The end of a delivery that nobody holds any more. See et_delivery.h. */
#include <stdlib.h>

#include "et_delivery_parts.h"

void et_delivery_free(et_delivery *d)
{
    et_store *store = d->store;
    et_spool_free(d);
    pthread_mutex_destroy(&d->lock);
    free(d);
    et_store_unref(store);
}

void et_delivery_unref(et_delivery *d)
{
    et_store *s = d->store;
    pthread_mutex_lock(&s->lock);
    bool last = --d->refs == 0;
    for (et_delivery **p = &s->first; last && *p; p = &(*p)->next)
        if (*p == d) {
            *p = d->next;
            break;
        }
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    et_spool_forget(d);
    et_delivery_free(d);
}

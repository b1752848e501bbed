/* The signalling of a queue (crates/net/src/queue/ring.rs) on a machine with store buffers.

   Spin explores interleavings of a machine whose memory is in order; here each side's stores go through
   a buffer of its own (total store order, as x86), so that what the fences are for can be seen:

     spin -a queue.pml && cc -O2 -o pan pan.c && ./pan            no errors: no wake-up is lost
     spin -DNO_FENCE -a queue.pml && cc -O2 -o pan pan.c && ./pan  an invalid end state: one is

   W, L, P, S are the steps of the module page. Weaker machines and the code itself are explored by the
   loom models beside the code. `cargo xtask models` runs both. */

#define ITEMS 3
#define NONE 255

byte tail = 0;       /* memory as all see it */
byte waiting = 0;
bool event = false;   /* the kernel's event: remembers one notification */

byte producer_tail = NONE, producer_waiting = NONE;   /* store buffers, one place for each word, */
byte consumer_waiting = NONE;                         /* drained in the order tail, waiting */

inline drain_producer() {
  atomic {
    if :: producer_tail != NONE -> tail = producer_tail; producer_tail = NONE :: else fi;
    if :: producer_waiting != NONE -> waiting = producer_waiting; producer_waiting = NONE :: else fi
  }
}

inline drain_consumer() {
  atomic { if :: consumer_waiting != NONE -> waiting = consumer_waiting; consumer_waiting = NONE :: else fi }
}

/* The memory system drains a buffer whenever it likes. */
active proctype memory() {
  end: do
  :: atomic { producer_tail != NONE -> tail = producer_tail; producer_tail = NONE }
  :: atomic { producer_tail == NONE && producer_waiting != NONE ->
              waiting = producer_waiting; producer_waiting = NONE }
  :: atomic { consumer_waiting != NONE -> waiting = consumer_waiting; consumer_waiting = NONE }
  od
}

active proctype producer() {
  byte sent = 0, seen;
  do
  :: sent < ITEMS ->
     sent++;
     /* A store cannot overtake the one before it. */
     atomic { producer_waiting == NONE && producer_tail == NONE -> producer_tail = sent };   /* P */
#ifndef NO_FENCE
     drain_producer();
#endif
     atomic { seen = (producer_waiting != NONE -> producer_waiting : waiting) };              /* S */
     if
     :: seen != 0 -> producer_waiting = 0; drain_producer(); event = true   /* a system call drains */
     :: else
     fi
  :: else -> break
  od;
  drain_producer()
}

active proctype consumer() {
  byte taken = 0;
  do
  :: taken == ITEMS -> break
  :: else ->
     taken = tail;
     if
     :: taken == ITEMS -> break
     :: else
     fi;
     atomic { consumer_waiting == NONE -> consumer_waiting = 1 };          /* W */
#ifndef NO_FENCE
     drain_consumer();
#endif
     if
     :: tail != taken ->                                                   /* L: something is there */
        atomic { consumer_waiting == NONE -> consumer_waiting = 0 }
     :: else ->
        drain_consumer();
        atomic { event -> event = false }                                    /* sleeps */
     fi
  od
}

/* Who fences at a doorbell (crates/atomic/src/doorbell.rs), on a machine with store buffers.

   The owner of a bell sleeps, again and again, on news of a ringer that fences only if the bell says so, and changes who
   fences between any two of its sleeps. The stores of the ringer go through a buffer (total store order, as x86); the
   kernel's fence of the ringer's core drains it. All else that is written is written by locked instructions.

     spin -a doorbell.pml && cc -O2 -o pan pan.c && ./pan              no errors: no wake-up is lost
     spin -DUNSETTLED -a doorbell.pml && cc -O2 -o pan pan.c && ./pan  an invalid end state: a second thread that sleeps
                                                                       here relied on ringers before all of them knew

   P, S, D1, D2, D3, L are the steps of the module page. `cargo xtask models` runs both. */

#define NEWS 3
#define NONE 255

bool announced = false, fenced = false, settled = false;   /* the bits of `state` */
byte word = 0;
byte news = 0;          /* memory as all see it */
byte buffered = NONE;   /* the ringer's store buffer */
bool changing = false;  /* one at a time changes who fences */

inline drain() {
  d_step { if :: buffered != NONE -> news = buffered; buffered = NONE :: else fi }
}

/* The memory system drains a buffer whenever it likes. */
active proctype memory() {
  end: do :: atomic { buffered != NONE -> news = buffered; buffered = NONE } od
}

active proctype ringer() {
  byte sent = 0;
  bool rings, looks_again;
  do
  :: sent < NEWS ->
     sent++;
     atomic { buffered == NONE -> buffered = sent };                                   /* P */
     d_step { rings = announced; looks_again = fenced || settled };                    /* S, without a fence */
     if
     :: !rings && looks_again -> drain(); rings = announced
     :: else
     fi;
     if
     :: rings ->
        /* A locked instruction drains. */
        d_step {
          if :: buffered != NONE -> news = buffered; buffered = NONE :: else fi;
          rings = announced; announced = false
        };
        if :: rings -> word++ :: else fi                                               /* D3; and wakes */
     :: else
     fi
  :: else -> break
  od
}

/* Two threads of one rank, who may both sleep here. */
active [2] proctype sleeper() {
  byte ticket;
  bool relies;
  do
  :: news == NEWS -> break
  :: else ->
     /* Who fences may change before any sleep, by one of them at a time. */
     if
     :: true
     :: atomic { !changing && !settled -> changing = true };
        fenced = true;
#ifdef UNSETTLED
        settled = true;
        drain();
#else
        drain();                                                                       /* X */
        settled = true;
#endif
        changing = false
     :: atomic { !changing && settled -> changing = true };
        d_step { fenced = false; settled = false };
        changing = false
     fi;
     ticket = word;                                                                    /* D1 */
     d_step { relies = settled; announced = true };                                    /* D2 */
     if
     :: relies
     :: else -> drain()                                                                /* the kernel's fence */
     fi;
     if
     :: news == NEWS -> break                                                          /* L */
     :: else ->
        word != ticket                                                                 /* sleeps until it rings */
     fi
  od
}

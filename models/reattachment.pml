/* The death of a producer of the datapath at any step (crates/net/src/queue/ring.rs), and what the broker
   then does (System::reattach in crates/net/src/system.rs): the channel goes to its next generation, the
   consumer is notified whether it sleeps or not, and a successor begins once the consumer has followed.

     spin -a reattachment.pml && cc -O2 -o pan pan.c && ./pan        no errors: the consumer gets all
     spin -DNO_NOTIFY -a reattachment.pml && cc -O2 -o pan pan.c && ./pan   an invalid end state: the dead took
                                                                     the flag, and nobody notifies

   Memory is in order here; what the fences are for is in queue.pml. P, S, W, L are the steps of the page of
   ring.rs. `cargo xtask models` runs both. */

#define ITEMS 2
#define START(generation) ((generation) * 16)

byte tail = 0;           /* 16 · generation + items */
byte waiting = 0;
bool event = false;       /* the kernel's event: remembers one notification */

byte ordered = 0;        /* the generation on the consumer's control page */
byte followed = 0;       /* what it has acknowledged */
bool dead = false;

/* The first producer may be killed here. */
inline point() {
  if
  :: mine == 0 -> dead = true; goto ended
  :: true
  fi
}

proctype producer(byte mine) {
  byte sent = 0, seen;
  tail = START(mine);
  do
  :: sent < ITEMS ->
     point();
     sent++;
     tail = START(mine) + sent;      /* P */
     point();
     seen = waiting;                 /* S */
     if
     :: seen != 0 ->
        waiting = 0;
        point();
        event = true
     :: else
     fi
  :: else -> break
  od;
ended:
  skip
}

active proctype broker() {
  run producer(0);
end:
  dead;
  ordered = 1;
#ifndef NO_NOTIFY
  event = true;
#endif
  followed == 1;
  run producer(1)
}

active proctype consumer() {
  byte mine = 0, taken = 0;
  do
  :: true ->
     /* Follows its orders, then takes what is there. */
     if
     :: ordered != mine -> mine = ordered; taken = 0; followed = mine
     :: else
     fi;
     if
     :: tail / 16 == mine -> taken = tail % 16
     :: else                         /* words of another generation: nothing is there */
     fi;
     waiting = 1;                                        /* W */
     if
     :: tail / 16 == mine && tail % 16 != taken -> waiting = 0   /* L */
     :: else ->
        if
        :: taken == ITEMS ->
end:       event
        :: else ->
           event                                          /* sleeps */
        fi;
        event = false
     fi
  od
}

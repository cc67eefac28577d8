/* Exactly one owner: the token protocol of sessions/, as a model for Spin. See README.md beside this file.
 *
 * Two workers answer the customer's messages, a person takes over and hands back, leases run out at any moment, a worker
 * dies once, and (with FAILOVER) the server once falls back to an older copy of itself, as an asynchronous failover does.
 * Each `atomic` is one Lua script, or one step of a process that nobody else can see into.
 *
 *   TOKEN 0  no token: whoever thinks that it owns may write
 *   TOKEN 1  a counter that is kept in the server (compared by equality)
 *   TOKEN 2  the counter and a nonce that is never given out twice: what Frontdesk does
 */
#ifndef TOKEN
#define TOKEN 2
#endif
#ifndef FAILOVER
#define FAILOVER 0
#endif

#define MESSAGES 2   /* that the customer sends; more add states, not situations */
#define GRANTS   9   /* bounds the search: claims and changes of owner */
#define TAKES    2
#define CRASHES  1

mtype = { ai, human };

/* What the server holds about the conversation. */
mtype kind = ai;     /* who owns */
byte epoch = 1;
byte nonce = 0;      /* of the present grant */
bool lease = false;
byte answered = 0;   /* messages at the front of the inbox that are answered and gone */

/* Random numbers do not come again: `drawn` belongs to no server, so no failover takes it back. */
byte drawn = 0;

/* The copy that a failover falls back to. */
mtype old_kind; byte old_epoch, old_nonce, old_answered; bool old_lease;

byte takes = 0, crashes = 0;

inline grant()       /* a new token: by a claim, and by every change of owner */
{
  epoch++;
  drawn++;
  nonce = drawn;
}

#if TOKEN == 0
#define holds(e, n) (true)
#elif TOKEN == 1
#define holds(e, n) (e == epoch)
#else
#define holds(e, n) (e == epoch && n == nonce)
#endif

#define open_ (answered < MESSAGES)

proctype Worker()
{
  byte my_epoch, my_nonce, my_message;

  do
  :: atomic {        /* claim.lua: the owner is an AI agent, a message waits, nobody else's lease runs */
       kind == ai && open_ && !lease && drawn < GRANTS ->
         grant(); lease = true;
         my_epoch = epoch; my_nonce = nonce; my_message = answered
     };
     if              /* the model thinks: anything may happen meanwhile */
     :: atomic { crashes < CRASHES -> crashes++ }     /* kill -9: what it had is gone */
     :: atomic {     /* commit.lua */
          true ->
            if
            :: holds(my_epoch, my_nonce) ->
                 assert(my_nonce == nonce);           /* I1: only the holder of the present token writes */
                 assert(kind == ai);                  /* I5: no agent speaks while a person owns */
                 assert(my_message == answered);      /* I4: a message is answered once */
                 answered++;
                 lease = false
            :: else                                   /* fenced: nothing is written */
            fi
        }
     fi;
     my_epoch = 0; my_nonce = 0; my_message = 0       /* forget, or equal states look different */
  :: atomic { !open_ -> break }
  od
}

active proctype Lease()                               /* time passes: no promise may depend on a lease */
{
  do
  :: atomic { lease -> lease = false }
  :: atomic { !open_ -> break }
  od
}

active proctype Person()
{
  byte my_epoch, my_nonce;

  do
  :: atomic {                                         /* takeover.lua: at once, whoever works on it */
       takes < TAKES && kind == ai && open_ && drawn < GRANTS ->
         takes++;
         kind = human; grant(); lease = false;
         my_epoch = epoch; my_nonce = nonce
     };
     if
     :: atomic {                                      /* the person answers: commit.lua */
          open_ ->
            if
            :: holds(my_epoch, my_nonce) && my_nonce == nonce && kind == human -> answered++
            :: else
            fi
        }
     :: skip
     fi;
     atomic {                                         /* and hands back: transfer.lua */
       if
       :: my_nonce == nonce && kind == human -> kind = ai; grant(); lease = false
       :: else                                        /* somebody else owns, or the server forgot the takeover */
       fi;
       my_epoch = 0; my_nonce = 0
     }
  :: atomic { !open_ -> break }
  od
}

#if FAILOVER
active proctype Server()
{
  atomic {                                            /* the last state that the replica got */
    old_kind = kind; old_epoch = epoch; old_nonce = nonce; old_answered = answered; old_lease = lease
  };
  atomic {                                            /* ... and all that was acknowledged since then is lost */
    kind = old_kind; epoch = old_epoch; nonce = old_nonce; answered = old_answered; lease = old_lease;
    if
    :: kind == human -> kind = ai; grant(); lease = false   /* the person is shown the new state and hands back */
    :: else
    fi
  }
}
#endif

init { atomic { run Worker(); run Worker() } }

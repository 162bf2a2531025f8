// Package explain puts decisions into words. The planner (coderd/prebuilds) says why by codes and arguments; every sentence
// about a pool that a person reads, in the command line, the API, the pages, notifications and logs, is made here. It is pure:
// no context, clock, log or SQL. Nobody reads a decision back out of these words: who has to branch looks at the code.
package explain

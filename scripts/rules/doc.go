// Package rules keeps classes of bugs out of the repository. Its test reads every file and fails with the place and the
// reason, so that `make test` enforces the rules without a linter:
//
//	clock       the wall clock comes from quartz, so that a test owns it
//	background  a context comes from the caller, so that whoever waits can give up
//	sql         SQL is in queries/ and database/, where it is reviewed and its types are checked
//	owners      what writes a table stands in the folder of the table's owner in queries/
//	records     history and audit rows have one form, and a state is never set without its history
//	reasons     nobody reads a decision out of the words that explain it: there is a code beside them
//	intx        no provider is called inside a transaction (I8)
//	open ends   what is to be done is an issue, not a comment
//	paths       no path of one developer's machine
//	length      a file past 500 lines does two things
//	programs    what tests run is written so that it can be run at once
//	words       pages, commands and messages use plain words
//	sentences   and sentences of at most 25 words
//
// The words of the web UI are held to the last two by site/src/words.test.ts, which reads the same list and the same cases.
//
// What imports what is the business of coderd/imports_test.go. The places that may break a rule, with the reason for
// each, are in allowed.go.
package rules

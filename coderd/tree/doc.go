// Package tree writes files in one step, and moves whole trees of files as tar archives in constant memory. Agents and the
// command line use it.
//
// All is done within an os.Root, which nothing leaves: neither a name of an archive, nor a symbolic link, nor one that is put in
// place of a directory while it is read.
package tree

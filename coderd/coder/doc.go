// Package coder reads templates of Coder, and writes what they declare as a configuration file of Prewarm: parameters, presets with their
// pools, and what their agent runs when it starts. What it cannot carry over, it lists with its place.
//
// It evaluates what is constant in a directory: literals, locals, defaults of variables and of parameters, and a few functions. What a
// run alone can know is not carried over. It runs nothing and asks nobody.
//
// It is for the command line. The parser goes as deep as a file is nested, so a server must not read files of others with it.
package coder

// Command peers is the Go side of the comparisons: client-go's shared informer, the encoder that turns the prepared data into
// protobuf, the work queues of client-go and controller-runtime, and the collections of Istio. See ../../README.md.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "informer":
			return informer(args[1:])
		case "encode":
			return encode(args[1:])
		case "collections":
			return collections(args[1:])
		case "queue":
			return queue(args[1:])
		}
	}
	return fmt.Errorf("usage: peers informer [FLAGS] ADDRESS | peers encode DIR | peers queue [FLAGS] | peers collections FLAGS")
}

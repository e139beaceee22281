// interop-quic-go is an HTTP/3 client and an HTTP/3 server around the library quic-go: a peer that
// altway's interoperability tests did not write. Its tests, and what a plan and a report hold, are in
// crates/cli/tests/it/interop_h3.
//
//	interop-quic-go client [ADDRESS:]PORT CA_FILE          does what a plan says, and reports
//	interop-quic-go server CERTIFICATE KEY ROOT SETTINGS   serves until SIGTERM
//
// The plan, which the client reads from standard input, and SETTINGS are JSON, and so is what it
// prints: the client a report, the server the port that it listens on.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"log"
	"os"
)

// Lines from whoever started this program.
var input = bufio.NewReader(os.Stdin)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 3 && arguments[0] == "client":
		line, err := input.ReadBytes('\n')
		if err != nil {
			return err
		}
		var plan plan
		if err := json.Unmarshal(line, &plan); err != nil {
			return err
		}
		return runClient(arguments[1], arguments[2], plan)
	case len(arguments) == 5 && arguments[0] == "server":
		var settings settings
		if err := json.Unmarshal([]byte(arguments[4]), &settings); err != nil {
			return err
		}
		return runServer(arguments[1], arguments[2], arguments[3], settings)
	}
	return errors.New("usage: client PORT CA_FILE | server CERTIFICATE KEY ROOT SETTINGS")
}

// say prints one line of JSON.
func say(value any) error {
	return json.NewEncoder(os.Stdout).Encode(value)
}

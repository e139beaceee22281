// bench-quic-go-raw moves bytes over one stream of QUIC with quic-go, as `altway raw` does with
// altway's engine: the peer of `cargo xtask bench raw`. One program is both ends.
//
// On the stream the client writes a number, eight bytes with the highest first; the server answers
// with so many bytes. The first number is 1, so that the transfer begins on a connection whose
// hand-shake is over at both ends; the second is the transfer, and the clock runs from its number to
// its last byte.
//
// Windows are those of `altway raw`, cipher and interface as well; congestion control, initial
// window, pacing and the size of packets are quic-go's own, which can't be chosen.
package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	// The name of this exchange in the hand-shake.
	protocol = "bench-raw"
	// How long nothing may move.
	patience = 30 * time.Second
	// Bytes under way at most: those of `altway raw`.
	window = 16 << 20
	// Bytes that the server hands over at once: those of `altway raw`.
	piece = 256 << 10
)

func main() {
	serving := flag.String("serve", "", "IP address and UDP port to serve on")
	asking := flag.String("ask", "", "IP address and UDP port of the server to ask")
	size := flag.Uint64("size", 1_000_000, "bytes to ask for")
	certificate := flag.String("certificate", "", "the server's: file of the certificate chain, PEM")
	key := flag.String("key", "", "file of its private key, PEM")
	version := flag.Bool("version", false, "print the versions of quic-go and Go")
	flag.Parse()
	var err error
	switch {
	case *version:
		fmt.Println(versions())
	case *serving != "":
		err = serve(*serving, *certificate, *key)
	case *asking != "":
		err = ask(*asking, *size)
	default:
		err = errors.New("nothing to do: -serve or -ask")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func config() *quic.Config {
	return &quic.Config{
		MaxIdleTimeout:                 patience,
		InitialStreamReceiveWindow:     window,
		MaxStreamReceiveWindow:         window,
		InitialConnectionReceiveWindow: window,
		MaxConnectionReceiveWindow:     window,
	}
}

func serve(address, certificate, key string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	settings := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{protocol},
	}
	listener, err := quic.ListenAddr(address, settings, config())
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go answer(connection)
	}
}

// answer ends with the client: there is nobody left to tell of a failure.
func answer(connection *quic.Conn) {
	stream, err := connection.AcceptStream(context.Background())
	if err != nil {
		return
	}
	payload := make([]byte, piece)
	for {
		var number [8]byte
		if _, err := io.ReadFull(stream, number[:]); err != nil {
			return
		}
		for left := binary.BigEndian.Uint64(number[:]); left > 0; {
			written, err := stream.Write(payload[:min(left, piece)])
			if err != nil {
				return
			}
			left -= uint64(written)
		}
	}
}

// result is what the client prints.
type result struct {
	Bytes  uint64 `json:"bytes"`
	WallUs int64  `json:"wall_us"`
}

func ask(address string, size uint64) error {
	settings := &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{protocol},
		// The certificate is the bench's own, and who answers is not in question.
		InsecureSkipVerify: true,
	}
	ctx := context.Background()
	connection, err := quic.DialAddr(ctx, address, settings, config())
	if err != nil {
		return err
	}
	// The process ends: an error would tell of what nobody waits for.
	defer connection.CloseWithError(0, "")
	if suite := connection.ConnectionState().TLS.CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		return errors.New("the cipher is " + tls.CipherSuiteName(suite))
	}
	stream, err := connection.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	if err := take(stream, 1); err != nil {
		return err
	}
	begun := time.Now()
	if err := take(stream, size); err != nil {
		return err
	}
	wall := time.Since(begun).Microseconds()
	return json.NewEncoder(os.Stdout).Encode(result{Bytes: size, WallUs: wall})
}

// take asks for so many bytes and reads them.
func take(stream *quic.Stream, size uint64) error {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], size)
	if _, err := stream.Write(number[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, stream, int64(size))
	return err
}

func versions() string {
	text := "quic-go"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/quic-go/quic-go" {
				text += " " + module.Version
			}
		}
	}
	return text + ", " + runtime.Version()
}

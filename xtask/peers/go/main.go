// bench-quic-go serves a folder from memory over HTTP/3 with quic-go alone: what a careful user of
// that library gets. It is a peer of `cargo xtask bench http3`, whose settings all servers share:
// TLS_AES_128_GCM_SHA256, no log, limits above what any workload asks for. The congestion control is
// quic-go's own, which can't be chosen.
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const (
	// Above what any workload asks for.
	maxStreams = 1000
	// Long enough for idle connections to be counted.
	idleTimeout = 5 * time.Minute
)

func main() {
	address := flag.String("address", "127.0.0.1:4433", "IP address and UDP port to serve on")
	certificate := flag.String("certificate", "", "file of the certificate chain, PEM")
	key := flag.String("key", "", "file of its private key, PEM")
	root := flag.String("root", ".", "the folder to serve")
	version := flag.Bool("version", false, "print the versions of quic-go and Go")
	flag.Parse()
	if *version {
		fmt.Println(versions())
		return
	}
	if err := serve(*address, *certificate, *key, *root); err != nil {
		log.Fatal(err)
	}
}

func serve(address, certificate, key, root string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	files, err := read(os.DirFS(root))
	if err != nil {
		return err
	}
	server := http3.Server{
		Addr:    address,
		Handler: files,
		TLSConfig: &tls.Config{
			Certificates:     []tls.Certificate{pair},
			MinVersion:       tls.VersionTLS13,
			VerifyConnection: demandCipher,
		},
		QUICConfig: &quic.Config{
			MaxIdleTimeout:     idleTimeout,
			MaxIncomingStreams: maxStreams,
		},
	}
	return server.ListenAndServe()
}

// demandCipher refuses what would make the measurement unfair. Go's TLS 1.3 has no setting for its
// cipher suites; where the processor has AES instructions it prefers the right one.
func demandCipher(state tls.ConnectionState) error {
	if state.CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		return errors.New("the cipher is " + tls.CipherSuiteName(state.CipherSuite))
	}
	return nil
}

// site is what a folder holds, by path.
type site map[string][]byte

func read(folder fs.FS) (site, error) {
	files := site{}
	err := fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, path)
		files["/"+path] = content
		return err
	})
	return files, err
}

func (s site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, found := s[r.URL.Path]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	// A client that has gone is no concern of a bench's server.
	_, _ = w.Write(content)
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

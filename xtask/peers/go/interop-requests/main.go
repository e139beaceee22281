// interop-requests makes requests with Go's net/http over HTTP/1.1 and HTTP/2, and with quic-go over HTTP/3: a client
// that sees whether two servers give the same answers. Its test is in crates/serve/tests/it/same.
//
//	interop-requests CA_FILE   reads requests, and prints an answer to each, in the same order
//
// Both are lines of JSON. It follows no redirect and decodes no content.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// No answer takes longer.
const patience = 30 * time.Second

// A field of a request or an answer; its value needn't be text.
type field struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

type request struct {
	// Scheme, host and port.
	Origin string
	// "h1", "h2" or "h3".
	Protocol string
	Method   string
	// Path and query, sent as they are.
	Target  string
	Fields  []field
	Content []byte
	// The server isn't told how long the content is.
	WithoutLength bool `json:"without_length"`
}

type answer struct {
	Status  int     `json:"status"`
	Fields  []field `json:"fields"`
	Content []byte  `json:"content"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: interop-requests CA_FILE")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(authority string) error {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return errors.New("no certificate in " + authority)
	}
	connections := &connections{roots: roots, open: map[string]http.RoundTripper{}}
	defer connections.close()
	requests := json.NewDecoder(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for requests.More() {
		var request request
		if err := requests.Decode(&request); err != nil {
			return err
		}
		answer, err := connections.ask(request)
		if err != nil {
			return fmt.Errorf("%s %s %s: %w", request.Protocol, request.Method, request.Target, err)
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

// connections to each server: all requests of HTTP/2 and HTTP/3 share one, those of HTTP/1.1 have one each, for an
// answer may end it.
type connections struct {
	roots *x509.CertPool
	open  map[string]http.RoundTripper
}

func (c *connections) ask(request request) (*answer, error) {
	client, err := c.client(request.Protocol, request.Origin)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if request.Protocol == "h1" {
		defer client.(*http.Transport).CloseIdleConnections()
	}
	outgoing, err := outgoing(ctx, request)
	if err != nil {
		return nil, err
	}
	incoming, err := client.RoundTrip(outgoing)
	if err != nil {
		return nil, err
	}
	defer incoming.Body.Close()
	if seen := fmt.Sprintf("h%d", incoming.ProtoMajor); seen != request.Protocol {
		return nil, errors.New("came over " + incoming.Proto)
	}
	content, err := io.ReadAll(incoming.Body)
	if err != nil {
		return nil, err
	}
	return &answer{incoming.StatusCode, flat(incoming.Header), content}, nil
}

// close tells servers that nobody comes back, so that they don't wait.
func (c *connections) close() {
	for _, client := range c.open {
		switch client := client.(type) {
		case *http.Transport:
			client.CloseIdleConnections()
		case *http3.Transport:
			_ = client.Close()
		}
	}
}

func (c *connections) client(protocol, origin string) (http.RoundTripper, error) {
	if client := c.open[protocol+origin]; client != nil {
		return client, nil
	}
	trust := &tls.Config{RootCAs: c.roots}
	protocols := new(http.Protocols)
	switch protocol {
	case "h1":
		protocols.SetHTTP1(true)
		return &http.Transport{TLSClientConfig: trust, Protocols: protocols, DisableCompression: true}, nil
	case "h2":
		protocols.SetHTTP2(true)
		c.open[protocol+origin] = &http.Transport{TLSClientConfig: trust, Protocols: protocols, DisableCompression: true}
	case "h3":
		c.open[protocol+origin] = &http3.Transport{TLSClientConfig: trust, DisableCompression: true}
	default:
		return nil, errors.New("no such protocol")
	}
	return c.open[protocol+origin], nil
}

func outgoing(ctx context.Context, of request) (*http.Request, error) {
	var content io.Reader
	if len(of.Content) > 0 {
		content = bytes.NewReader(of.Content)
	}
	if of.WithoutLength {
		content = struct{ io.Reader }{content}
	}
	made, err := http.NewRequestWithContext(ctx, of.Method, of.Origin+of.Target, content)
	if err != nil {
		return nil, err
	}
	for _, field := range of.Fields {
		made.Header.Add(field.Name, string(field.Value))
	}
	return made, nil
}

func flat(header http.Header) []field {
	fields := []field{}
	for name, values := range header {
		for _, value := range values {
			fields = append(fields, field{name, []byte(value)})
		}
	}
	return fields
}

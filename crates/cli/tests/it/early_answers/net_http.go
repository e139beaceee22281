// Sends a body with the client of Go's net/http, again and again, and prints the protocol and the status of
// each response. Arguments: URL, file of the certificate authority, h1 or h2, bytes of the body, times, method, and
// "unknown" if the body's length is not to be said.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	url, protocol := os.Args[1], os.Args[3]
	authority, err := os.ReadFile(os.Args[2])
	check(err)
	size, err := strconv.Atoi(os.Args[4])
	check(err)
	times, err := strconv.Atoi(os.Args[5])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: protocol == "h2",
	}}
	body := bytes.Repeat([]byte("x"), size)
	for range times {
		var content io.Reader = bytes.NewReader(body)
		if len(os.Args) > 7 && os.Args[7] == "unknown" {
			content = io.MultiReader(content)
		}
		request, err := http.NewRequest(os.Args[6], url, content)
		check(err)
		response, err := client.Do(request)
		check(err)
		_, err = io.Copy(io.Discard, response.Body)
		check(err)
		response.Body.Close()
		fmt.Println(response.Proto, response.StatusCode)
	}
}

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
)

// A request is one of a plan's.
type request struct {
	Method string
	Path   string
	Fields map[string]string
	// Size of the body. Its second half is sent once a quarter of it has come back.
	Upload int
	// The second half waits for nothing.
	Freely   bool
	Trailers map[string]string
}

// A response is one of a report's; the names of fields are in lower case.
type response struct {
	Interim  []int             `json:"interim"`
	Status   int               `json:"status"`
	Fields   map[string]string `json:"fields"`
	Bytes    int64             `json:"bytes"`
	SHA256   string            `json:"sha256"`
	Trailers map[string]string `json:"trailers"`
}

// exchange makes a request and reads its response; the first of a connection may be disturbed.
func (c *client) exchange(ctx context.Context, root string, of request, first bool) (response, error) {
	var answer response
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(status int, _ textproto.MIMEHeader) error {
			answer.Interim = append(answer.Interim, status)
			return nil
		},
	})
	upload := newUpload(ctx, of)
	outgoing, err := outgoing(ctx, root, of, upload)
	if err != nil {
		return answer, err
	}
	incoming, err := c.http.RoundTrip(outgoing)
	if err != nil {
		return answer, err
	}
	defer incoming.Body.Close()
	sum := sha256.New()
	reader := &watched{client: c, response: incoming, context: ctx, upload: upload, enough: of.Freely}
	if first {
		reader.moves = c.Moves
		reader.announce = c.Announce
	}
	answer.Bytes, err = io.Copy(sum, reader)
	answer.Status = incoming.StatusCode
	answer.Fields = flat(incoming.Header)
	answer.Trailers = flat(incoming.Trailer)
	answer.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return answer, err
}

func outgoing(ctx context.Context, root string, of request, upload *upload) (*http.Request, error) {
	var body io.Reader
	if of.Upload > 0 {
		body = upload
	}
	made, err := http.NewRequestWithContext(ctx, of.Method, root+of.Path, body)
	if err != nil {
		return nil, err
	}
	for name, value := range of.Fields {
		made.Header.Set(name, value)
	}
	if len(of.Trailers) > 0 {
		made.Trailer = http.Header{}
	}
	for name, value := range of.Trailers {
		made.Trailer.Set(name, value)
	}
	// What is served is to come as it is.
	made.Header.Set("Accept-Encoding", "identity")
	return made, nil
}

func flat(header http.Header) map[string]string {
	fields := map[string]string{}
	for name, values := range header {
		fields[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return fields
}

// An upload is a body whose second half waits for enough of the response.
type upload struct {
	context context.Context
	size    int
	sent    int
	// Closed when a quarter of the size has come back.
	enough chan struct{}
}

func newUpload(ctx context.Context, of request) *upload {
	upload := &upload{context: ctx, size: of.Upload, enough: make(chan struct{})}
	if of.Freely {
		close(upload.enough)
	}
	return upload
}

func (u *upload) Read(buffer []byte) (int, error) {
	end := u.size / 2
	if u.sent >= end {
		select {
		case <-u.enough:
		case <-u.context.Done():
			return 0, errors.New("nothing came back while the upload went on")
		}
		end = u.size
	}
	if u.sent == u.size {
		return 0, io.EOF
	}
	n := min(len(buffer), end-u.sent)
	for i := range n {
		buffer[i] = byte((u.sent + i) % 251)
	}
	u.sent += n
	return n, nil
}

// watched reads a response, and does what is planned for the time that it takes.
type watched struct {
	client   *client
	context  context.Context
	response *http.Response
	upload   *upload
	read     int64
	enough   bool
	announce bool
	// How many there are to be.
	moves int
}

func (w *watched) Read(buffer []byte) (int, error) {
	if w.announce && w.read > 0 {
		w.announce = false
		if err := pause(); err != nil {
			return 0, err
		}
	}
	if w.due() {
		if err := w.client.move(w.context); err != nil {
			return 0, err
		}
	}
	n, err := w.response.Body.Read(buffer)
	w.read += int64(n)
	if !w.enough && w.read >= int64(w.upload.size/4) {
		w.enough = true
		close(w.upload.enough)
	}
	return n, err
}

// due tells whether it is time to move: the moves divide the body evenly.
func (w *watched) due() bool {
	next := int64(w.client.moves + 1)
	return w.client.moves < w.moves && w.read > next*w.response.ContentLength/int64(w.moves+1)
}

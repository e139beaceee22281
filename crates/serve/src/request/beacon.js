// altway's beacon: for a small share of page views, how long the page took by the browser's own clock. Sends seven
// numbers to the page's own origin, and nothing that tells who or which page it is.
(() => {
  if (Math.random() >= SHARE || !navigator.sendBeacon) return;
  let sent = false;
  const send = () => {
    const page = performance.getEntriesByType("navigation")[0];
    if (sent || !page || !page.loadEventStart || !page.nextHopProtocol) return;
    sent = true;
    const own = performance.getEntriesByType("resource").filter((it) =>
      it.name.startsWith(location.origin + "/") && it.transferSize > 0 && it.responseEnd <= page.loadEventStart);
    const all = own.concat(page.transferSize > 0 ? [page] : []);
    if (!all.length) return;
    const begin = page.connectEnd > page.connectStart ? page.connectStart : page.requestStart;
    const end = Math.max(...all.map((it) => it.responseEnd));
    const same = all.filter((it) => it.nextHopProtocol === page.nextHopProtocol).length;
    const bytes = all.reduce((sum, it) => sum + it.transferSize, 0);
    const ms = (time) => Math.max(1, Math.round(time));
    navigator.sendBeacon("/.well-known/altway/beacon", "v=1&p=" + page.nextHopProtocol + "&n=" + all.length +
      "&s=" + same + "&b=" + bytes + "&t=" + ms(end - begin) + "&l=" + ms(page.loadEventStart - page.startTime));
  };
  // A second after the last response a page is over for the server as well.
  const later = () => setTimeout(send, 1500);
  if (document.readyState === "complete") later();
  else addEventListener("load", later);
  addEventListener("pagehide", send);
})();

// Content of the page that is packed by gzip, and written in base 64.
function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (it) => it.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

// What was drawn, as the network was taught to see it: images of the digits data are bitmaps of 32 x 32
// in which a digit fills the height, counted in squares of 4 x 4.

const BITMAP = 32, SQUARE = 4, SIZE = BITMAP / SQUARE;
const PEN = 2.1;                // half the width of a line, in pixels of the bitmap

/** Pixels, 0 to 1, of strokes: lists of points [x, y], in any unit. A Float32Array of 8 x 8, row by row. */
export function pixels(strokes) {
  const image = new Float32Array(SIZE * SIZE);
  const segments = scaled(strokes).flatMap(segmentsOf);
  for (let y = 0; y < BITMAP; y++) {
    for (let x = 0; x < BITMAP; x++) {
      if (segments.some(segment => distance(x + 0.5, y + 0.5, segment) <= PEN)) {
        image[SIZE * Math.floor(y / SQUARE) + Math.floor(x / SQUARE)] += 1 / SQUARE ** 2;
      }
    }
  }
  return image;
}

// The strokes in pixels of the bitmap: as large as fits, in the middle.
function scaled(strokes) {
  const points = strokes.flat();
  const [left, right] = ends(points.map(point => point[0]));
  const [top, bottom] = ends(points.map(point => point[1]));
  const scale = (BITMAP - 2 * PEN) / Math.max(right - left, bottom - top, 1e-9);
  return strokes.map(stroke => stroke.map(([x, y]) => [
    BITMAP / 2 + scale * (x - (left + right) / 2), BITMAP / 2 + scale * (y - (top + bottom) / 2)]));
}

function ends(numbers) {
  return numbers.reduce(([least, most], number) => [Math.min(least, number), Math.max(most, number)],
    [Infinity, -Infinity]);
}

// The lines between neighbouring points; a single point is a line to itself.
function segmentsOf(stroke) {
  return stroke.length === 1 ? [[stroke[0], stroke[0]]]
    : stroke.slice(1).map((point, place) => [stroke[place], point]);
}

function distance(x, y, [[x0, y0], [x1, y1]]) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const length = dx * dx + dy * dy;
  const along = length ? Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / length)) : 0;
  return Math.hypot(x - x0 - along * dx, y - y0 - along * dy);
}

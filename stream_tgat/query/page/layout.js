// Where nodes of the live graph are: springs along edges, and a push out of crowded cells of a grid. All in typed
// arrays, with room for so many nodes and edges; the oldest make room for the next.

export const MOST_NODES = 16_384;
export const MOST_EDGES = 32_768;
const CELL = 26;
const SPRING = 0.02;
const LENGTH = 34;
const PUSH = 0.9;
const PULL = 0.0006;
const DAMPING = 0.82;

export class Layout {
  constructor() {
    this.x = new Float32Array(MOST_NODES);
    this.y = new Float32Array(MOST_NODES);
    this.dx = new Float32Array(MOST_NODES);
    this.dy = new Float32Array(MOST_NODES);
    this.seen = new Float64Array(MOST_NODES);
    this.degree = new Uint32Array(MOST_NODES);
    this.isItem = new Uint8Array(MOST_NODES);
    this.raised = new Float64Array(MOST_NODES);
    this.from = new Uint16Array(MOST_EDGES);
    this.to = new Uint16Array(MOST_EDGES);
    this.at = new Float64Array(MOST_EDGES);
    this.ids = new Array(MOST_NODES);
    this.places = new Map();
    this.free = [];
    this.count = 0;
    this.first = 0;
    this.edges = 0;
    this.shift = 0;
    this.turn = 0;
    this.cells = new Int32Array(1 << 16);
    this.sumX = new Float32Array(1 << 16);
    this.sumY = new Float32Array(1 << 16);
  }

  get nodes() {
    return this.places.size;
  }

  node(kind, id, now, near = -1) {
    const key = `${kind}/${id}`;
    let place = this.places.get(key);
    if (place === undefined) {
      place = this.free.pop() ?? (this.count < MOST_NODES ? this.count++ : this.oldest());
      const angle = 2 * Math.PI * Math.random();
      const far = near >= 0 ? LENGTH : 40 + 5 * Math.sqrt(this.nodes) * Math.random() * 6;
      this.x[place] = (near >= 0 ? this.x[near] : 0) + far * Math.cos(angle);
      this.y[place] = (near >= 0 ? this.y[near] : 0) + far * Math.sin(angle);
      this.dx[place] = this.dy[place] = 0;
      this.degree[place] = 0;
      this.raised[place] = 0;
      this.isItem[place] = kind === "item" ? 1 : 0;
      this.ids[place] = { kind, id, key };
      this.places.set(key, place);
    }
    this.seen[place] = now;
    return place;
  }

  oldest() {
    let place = 0;
    for (let n = 1; n < this.count; n++) if (this.seen[n] < this.seen[place]) place = n;
    this.places.delete(this.ids[place].key);
    return place;
  }

  meet(user, item, now) {
    const known = this.places.get(`item/${item}`);
    const one = this.node("user", user, now, known ?? -1);
    const other = this.node("item", item, now, one);
    this.degree[one]++;
    this.degree[other]++;
    const edge = this.edges++ % MOST_EDGES;
    if (this.edges - this.first > MOST_EDGES) this.first = this.edges - MOST_EDGES;
    this.from[edge] = one;
    this.to[edge] = other;
    this.at[edge] = now;
  }

  // Forgets what is older than so many milliseconds.
  fade(now, kept) {
    while (this.first < this.edges && now - this.at[this.first % MOST_EDGES] > kept) this.first++;
    for (let n = 0; n < this.count; n++) {
      if (this.ids[n] && now - this.seen[n] > kept) {
        this.places.delete(this.ids[n].key);
        this.ids[n] = null;
        this.free.push(n);
      }
    }
  }

  step() {
    const { x, y, dx, dy, ids, count } = this;
    for (let number = this.first; number < this.edges; number++) {
      const edge = number % MOST_EDGES;
      const a = this.from[edge];
      const b = this.to[edge];
      const ex = x[b] - x[a];
      const ey = y[b] - y[a];
      const length = Math.sqrt(ex * ex + ey * ey) + 0.01;
      // A node with many edges is heavy, so that hubs stay and the others come to them.
      const force = SPRING * (length - LENGTH) / length;
      const forA = force / (1 + 0.15 * this.degree[a]);
      const forB = force / (1 + 0.15 * this.degree[b]);
      dx[a] += forA * ex; dy[a] += forA * ey;
      dx[b] -= forB * ex; dy[b] -= forB * ey;
    }
    // Another grid at each step, or nodes would settle along its lines.
    this.shift = (this.shift + 0.618034 * CELL) % CELL;
    this.turn = (this.turn + 0.754878 * CELL) % CELL;
    const { shift, turn } = this;
    this.cells.fill(0);
    this.sumX.fill(0);
    this.sumY.fill(0);
    for (let n = 0; n < count; n++) {
      if (!ids[n]) continue;
      const cell = cellOf(x[n] + shift, y[n] + turn);
      this.cells[cell]++;
      this.sumX[cell] += x[n];
      this.sumY[cell] += y[n];
    }
    let moved = 0;
    for (let n = 0; n < count; n++) {
      if (!ids[n]) continue;
      for (let column = -1; column <= 1; column++) {
        for (let row = -1; row <= 1; row++) {
          const cell = cellOf(x[n] + shift + CELL * column, y[n] + turn + CELL * row);
          const others = this.cells[cell];
          if (!others || (others === 1 && !column && !row)) continue;
          const ax = x[n] - this.sumX[cell] / others + 0.01 * (n % 7 - 3);
          const ay = y[n] - this.sumY[cell] / others + 0.01 * (n % 5 - 2);
          const square = ax * ax + ay * ay + 40;
          dx[n] += PUSH * others * ax / square * 2;
          dy[n] += PUSH * others * ay / square * 2;
        }
      }
      dx[n] = DAMPING * (dx[n] - PULL * x[n]);
      dy[n] = DAMPING * (dy[n] - PULL * y[n]);
      const speed = Math.sqrt(dx[n] * dx[n] + dy[n] * dy[n]);
      const most = speed > 12 ? 12 / speed : 1;
      x[n] += most * dx[n];
      y[n] += most * dy[n];
      moved += speed;
    }
    return moved / Math.max(this.nodes, 1);
  }

  // The node nearest to a place, not farther than so much; -1 for none.
  nearest(px, py, far) {
    let best = -1;
    let least = far * far;
    for (let n = 0; n < this.count; n++) {
      if (!this.ids[n]) continue;
      const square = (this.x[n] - px) ** 2 + (this.y[n] - py) ** 2;
      if (square < least) { least = square; best = n; }
    }
    return best;
  }
}

function cellOf(x, y) {
  return ((Math.floor(x / CELL) & 255) << 8) | (Math.floor(y / CELL) & 255);
}

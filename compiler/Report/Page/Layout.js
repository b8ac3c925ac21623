// Where the nodes stand: a layered drawing (Sugiyama's method), cut into columns.
//
//   1. Ranks: the longest way from a source; a node with fewer inputs than
//      outputs moves down to its reader; what a rank has too many of moves on.
//   2. A value that crosses several ranks gets one chain of bends, which all of
//      its readers share. Where the chains would be too many (a dense graph, a node
//      of very many values), they are left out and their edges are drawn straight.
//   3. Order within a rank: barycentres, swept up and down; the best of all kept.
//   4. Columns: a network is long and thin, a window is not. The ranks are cut
//      where few values cross, into columns that fill the window's aspect.
//   5. Positions: each rank in turn takes the nearest places to the medians of its
//      neighbours that keep the order and the gaps, which is isotonic regression.
//
// No clock, no randomness: one graph has one drawing.

const NODE_WIDTH = 156, NODE_HEIGHT = 40, GAP_X = 22, GAP_Y = 34, BEND_GAP = 12;
const MOST_BENDS = 40000, MOST_COLUMNS = 48, MOST_FAN = 48, TRACK = 6;

/** Nodes before their readers; what a cycle holds, which no model has, comes last. */
function topologicalOrder(count, edges, outs) {
  const missing = new Int32Array(count);
  edges.forEach((e) => { ++missing[e.to]; });
  const order = [];
  for (let i = 0; i < count; ++i)
    if (missing[i] === 0)
      order.push(i);
  for (let k = 0; k < order.length; ++k)
    for (const e of outs[order[k]])
      if (--missing[edges[e].to] === 0)
        order.push(edges[e].to);
  return order;
}

function assignRanks(count, edges, ins, outs) {
  const order = topologicalOrder(count, edges, outs);
  const rank = new Int32Array(count);
  for (const i of order)
    for (const e of outs[i])
      rank[edges[e].to] = Math.max(rank[edges[e].to], rank[i] + 1);
  for (let k = order.length - 1; k >= 0; --k) {
    const i = order[k];
    if (outs[i].length === 0 || ins[i].length >= outs[i].length)
      continue;
    let least = Infinity;
    for (const e of outs[i])
      least = Math.min(least, rank[edges[e].to] - 1);
    rank[i] = Math.max(rank[i], least);
  }
  return narrow(order, rank, edges, ins);
}

/** No rank holds many more nodes than a square drawing would: the rest moves down, and their readers with them. */
function narrow(order, rank, edges, ins) {
  const most = Math.max(12, Math.ceil(0.8 * Math.sqrt(order.length))), held = [];
  order.slice().sort((a, b) => rank[a] - rank[b]).forEach((i) => {
    for (const e of ins[i])
      rank[i] = Math.max(rank[i], rank[edges[e].from] + 1);
    while ((held[rank[i]] || 0) >= most)
      ++rank[i];
    held[rank[i]] = (held[rank[i]] || 0) + 1;
  });
  return rank;
}

/**
 * Vertices are the nodes, then the bends. Links join vertices of neighbouring
 * ranks. routes[edge]: its vertices in turn, two for an edge drawn straight.
 */
function addBends(count, edges, rank) {
  const chains = new Map(), values = new Map(), reads = new Int32Array(count);
  for (const { from, to, value } of edges) {
    ++reads[to];
    values.set(from, (values.get(from) || new Set()).add(value));
  }
  const isFan = ({ from, to }) => rank[to] - rank[from] > 1 && (reads[to] > MOST_FAN || values.get(from).size > MOST_FAN);
  edges.forEach((edge, e) => {
    const key = isFan(edge) ? `fan ${e}` : `${edge.from} ${edge.value}`;
    const chain = chains.get(key) || { from: edge.from, edges: [], last: 0 };
    chain.edges.push(e);
    chain.last = Math.max(chain.last, rank[edge.to]);
    chains.set(key, chain);
  });
  const all = [...chains.values()];
  const span = (c) => c.last - rank[c.from] - 1;
  let room = MOST_BENDS;
  all.slice().sort((a, b) => span(a) - span(b)).forEach((c) => {
    const fan = isFan(edges[c.edges[0]]);
    room -= fan ? 0 : Math.max(span(c), 0);
    c.straight = fan || room < 0;
  });
  const ranks = Array.from(rank), routes = new Array(edges.length), links = [], seen = new Set();
  const link = (a, b) => {
    const key = a * 4194304 + b;
    if (seen.has(key))
      return;
    seen.add(key);
    links.push({ a, b });
  };
  for (const chain of all) {
    const bends = [chain.from];
    for (let r = rank[chain.from] + 1; !chain.straight && r < chain.last; ++r) {
      bends.push(ranks.length);
      ranks.push(r);
    }
    for (const e of chain.edges) {
      const { from, to } = edges[e];
      const route = chain.straight || rank[to] <= rank[from] ? [from] : bends.slice(0, rank[to] - rank[from]);
      route.push(to);
      routes[e] = route;
      for (let k = 0; k + 1 < route.length; ++k)
        if (ranks[route[k + 1]] === ranks[route[k]] + 1)
          link(route[k], route[k + 1]);
    }
  }
  return { ranks, routes, links };
}

/** First order of each rank: as a walk in depth from the sources meets the vertices. */
function firstOrder(ranks, down, rankCount) {
  const layers = Array.from({ length: rankCount }, () => []);
  const seen = new Uint8Array(ranks.length);
  const byRank = ranks.map((_, v) => v).sort((a, b) => ranks[a] - ranks[b] || a - b);
  for (const root of byRank) {
    const stack = [root];
    while (stack.length) {
      const v = stack.pop();
      if (seen[v])
        continue;
      seen[v] = 1;
      layers[ranks[v]].push(v);
      for (let k = down[v].length - 1; k >= 0; --k)
        stack.push(down[v][k]);
    }
  }
  return layers;
}

/** Pairs of links between two ranks that cross; a Fenwick tree counts the ends further right. */
function countCrossings(layers, down, place) {
  let crossings = 0;
  for (let r = 0; r + 1 < layers.length; ++r) {
    const size = layers[r + 1].length, tree = new Int32Array(size + 1);
    let inserted = 0;
    for (const v of layers[r]) {
      const ends = down[v].map((w) => place[w]).sort((a, b) => a - b);
      for (const end of ends) {
        let before = 0;
        for (let i = end + 1; i > 0; i -= i & -i)
          before += tree[i];
        crossings += inserted - before;
      }
      for (const end of ends) {
        ++inserted;
        for (let i = end + 1; i <= size; i += i & -i)
          ++tree[i];
      }
    }
  }
  return crossings;
}

function orderLayers(layers, up, down, vertexCount) {
  const place = new Int32Array(vertexCount), key = new Float64Array(vertexCount);
  const number = (layer) => layer.forEach((v, i) => { place[v] = i; });
  layers.forEach(number);
  let best = layers.map((l) => l.slice()), least = countCrossings(layers, down, place);
  const sweeps = vertexCount > 20000 ? 6 : 14;
  for (let sweep = 0; sweep < sweeps && least > 0; ++sweep) {
    const near = sweep % 2 ? down : up;
    for (let k = 0; k < layers.length; ++k) {
      const layer = layers[sweep % 2 ? layers.length - 1 - k : k];
      for (const v of layer) {
        let sum = 0;
        for (const w of near[v])
          sum += place[w];
        key[v] = near[v].length ? sum / near[v].length : place[v];
      }
      layer.sort((a, b) => key[a] - key[b] || place[a] - place[b]);
      number(layer);
    }
    const crossings = countCrossings(layers, down, place);
    if (crossings < least) {
      least = crossings;
      best = layers.map((l) => l.slice());
    }
  }
  return best;
}

/** Ranks at which a new column begins, the first of all included. */
function cutColumns(layers, widthOf, aspect) {
  const count = layers.length, row = NODE_HEIGHT + GAP_Y;
  const layerWidth = layers.map((l) => l.reduce((sum, v) => sum + widthOf(v), 0));
  const crossing = layers.map((l, r) => (r ? Math.min(layers[r - 1].length, l.length) : 0));
  const cutsFor = (columns) => {
    const cuts = [0], reach = Math.floor(count / columns * 0.2);
    for (let c = 1; c < columns; ++c) {
      const ideal = Math.round(c * count / columns);
      let best = ideal;
      for (let r = Math.max(cuts[c - 1] + 1, ideal - reach); r <= Math.min(count - 1, ideal + reach); ++r) {
        const better = crossing[r] - crossing[best] || Math.abs(r - ideal) - Math.abs(best - ideal);
        if (better < 0)
          best = r;
      }
      if (best > cuts[c - 1])
        cuts.push(best);
      else
        return cuts;
    }
    return cuts;
  };
  let cuts = [0], nearest = Infinity;
  for (let columns = 1; columns <= MOST_COLUMNS && columns * 4 <= Math.max(count, 4); ++columns) {
    const tried = cutsFor(columns);
    let width = 0, height = 0;
    tried.forEach((from, c) => {
      const to = c + 1 < tried.length ? tried[c + 1] : count;
      let widest = 0;
      for (let r = from; r < to; ++r)
        widest = Math.max(widest, layerWidth[r]);
      width += widest + 60;
      height = Math.max(height, (to - from) * row);
    });
    const distance = Math.abs(Math.log(width / height / aspect));
    if (distance < nearest) {
      nearest = distance;
      cuts = tried;
    }
  }
  return cuts;
}

/** Least squares to `wish` under x[i + 1] - x[i] >= gap[i]: blocks that would overlap move as one. */
function spread(wish, weight, gap) {
  const blocks = [], offset = new Float64Array(wish.length);
  for (let i = 1; i < wish.length; ++i)
    offset[i] = offset[i - 1] + gap[i - 1];
  for (let i = 0; i < wish.length; ++i) {
    let block = { at: wish[i] - offset[i], weight: weight[i], size: 1 };
    while (blocks.length && blocks[blocks.length - 1].at > block.at) {
      const before = blocks.pop(), sum = before.weight + block.weight;
      block = { at: (before.at * before.weight + block.at * block.weight) / sum, weight: sum, size: before.size + block.size };
    }
    blocks.push(block);
  }
  const x = [];
  for (const block of blocks)
    for (let k = 0; k < block.size; ++k)
      x.push(block.at + offset[x.length]);
  return x;
}

/**
 * Median of the neighbours' places; the middle of two that tie. Lines are to go
 * straight on: a bend's other bends count more than any nodes, a node's nodes
 * threefold.
 */
function weightedMedian(neighbours, x, nodeCount, bend) {
  if (neighbours.length === 1)
    return x[neighbours[0]];
  const weightOf = (w) => ((w >= nodeCount) !== bend ? 1 : bend ? 1e4 : 3);
  const sorted = neighbours.slice().sort((a, b) => x[a] - x[b] || a - b);
  let all = 0;
  for (const w of sorted)
    all += weightOf(w);
  let sum = 0;
  for (let k = 0; k < sorted.length; ++k) {
    sum += weightOf(sorted[k]);
    if (sum * 2 === all)
      return (x[sorted[k]] + x[sorted[k + 1]]) / 2;
    if (sum * 2 > all)
      return x[sorted[k]];
  }
  return x[sorted[0]];
}

/**
 * A bend goes into the middle of those that hang from the same vertex and lead
 * nowhere by links: at their end it would be pushed aside in every rank anew.
 */
function centreBends(layers, up, down, nodeCount) {
  const isLeaf = (v, parent) => v < nodeCount && down[v].length === 0 && up[v].length === 1 && up[v][0] === parent;
  for (const layer of layers)
    for (const bend of layer.filter((v) => v >= nodeCount)) {
      const at = layer.indexOf(bend), [parent] = up[bend];
      let first = at, last = at;
      while (first > 0 && isLeaf(layer[first - 1], parent))
        --first;
      while (last + 1 < layer.length && isLeaf(layer[last + 1], parent))
        ++last;
      layer.splice(at, 1);
      layer.splice((first + last) >> 1, 0, bend);
    }
}

/** Places within one column, whose ranks are [from, to). */
function placeColumn(layers, from, to, x, up, down, widthOf, nodeCount) {
  const isBend = (v) => v >= nodeCount;
  const gapOf = (a, b) => (widthOf(a) + widthOf(b)) / 2;
  for (let r = from; r < to; ++r) {
    let at = 0;
    layers[r].forEach((v, i) => { at += i ? gapOf(layers[r][i - 1], v) : 0; x[v] = at; });
    layers[r].forEach((v) => { x[v] -= at / 2; });
  }
  const none = [];
  const settle = (r, useUp, useDown) => {
    const layer = layers[r], size = layer.length;
    const wish = new Float64Array(size), weight = new Float64Array(size), gap = new Float64Array(size);
    for (let i = 0; i < size; ++i) {
      const v = layer[i], above = useUp && r > from ? up[v] : none, below = useDown && r + 1 < to ? down[v] : none;
      const near = above.length === 0 ? below : below.length === 0 ? above : above.concat(below);
      wish[i] = near.length ? weightedMedian(near, x, nodeCount, isBend(v)) : x[v];
      // Bends make room.
      weight[i] = (isBend(v) ? 0.002 : 1) * (near.length || 0.01);
      if (i)
        gap[i - 1] = gapOf(layer[i - 1], v);
    }
    spread(wish, weight, gap).forEach((value, i) => { x[layer[i]] = value; });
  };
  for (let pass = 0; pass < 5; ++pass) {
    for (let r = from + 1; r < to; ++r)
      settle(r, true, false);
    for (let r = to - 2; r >= from; --r)
      settle(r, false, true);
  }
  for (let r = from; r < to; ++r)
    settle(r, true, true);
}

/**
 * Points of the links from the foot of one column to the head of the next:
 * beneath the one, up between the two, over the other, each on a track of its own.
 */
function routeAcross(crossing, x, y, head, foot, gutter) {
  const sorted = crossing.slice().sort((p, q) => x[p.a] - x[q.a] || x[p.b] - x[q.b] || p.a - q.a);
  sorted.forEach((link, t) => {
    const low = foot + 10 + (sorted.length - t) * TRACK, high = head - 10 - (sorted.length - t) * TRACK;
    const between = gutter + (sorted.length - t) * TRACK;
    link.via = [x[link.a], low, between, low, between, high, x[link.b], high];
  });
}

function placeVertices(layers, cuts, bent, near, widthOf, nodeCount) {
  const { ranks, links } = bent;
  const x = new Float64Array(ranks.length), y = new Float64Array(ranks.length);
  const columnOfRank = new Int32Array(layers.length), columns = [];
  const across = cuts.map(() => []);
  cuts.forEach((from, c) => columnOfRank.fill(c, from, layers.length));
  for (const link of links)
    if (columnOfRank[ranks[link.a]] !== columnOfRank[ranks[link.b]])
      across[columnOfRank[ranks[link.b]]].push(link);
  const head = 20 + TRACK * Math.max(...across.map((a) => a.length));
  let left = 0;
  cuts.forEach((from, c) => {
    const to = c + 1 < cuts.length ? cuts[c + 1] : layers.length;
    placeColumn(layers, from, to, x, near.up, near.down, widthOf, nodeCount);
    let least = Infinity, most = -Infinity;
    for (let r = from; r < to; ++r)
      for (const v of layers[r]) {
        least = Math.min(least, x[v] - widthOf(v) / 2);
        most = Math.max(most, x[v] + widthOf(v) / 2);
        y[v] = head + (r - from) * (NODE_HEIGHT + GAP_Y) + NODE_HEIGHT / 2;
      }
    const gutter = c ? left + 8 : 0;
    left += c ? 24 + across[c].length * TRACK : 0;
    for (let r = from; r < to; ++r)
      for (const v of layers[r])
        x[v] += left - least;
    columns.push({ from, to, left, right: left + most - least, gutter });
    left += most - least;
  });
  const tallest = Math.max(...columns.map((c) => c.to - c.from));
  columns.forEach((column, c) => {
    if (c)
      routeAcross(across[c], x, y, head, head + (columns[c - 1].to - columns[c - 1].from) * (NODE_HEIGHT + GAP_Y) - GAP_Y, column.gutter);
  });
  return { x, y, columns, columnOfRank, width: left, height: 2 * head + tallest * (NODE_HEIGHT + GAP_Y) };
}

/**
 * nodes: with ins and outs, indices of edges; edges: {from, to, value}.
 * Returns {x, y, ranks, layers, columns, columnOfRank, links, routes, width, height}:
 * x, y are the middles of the vertices, the nodes first.
 */
function layoutGraph(nodes, edges, aspect) {
  const count = nodes.length;
  const rank = assignRanks(count, edges, nodes.map((n) => n.ins), nodes.map((n) => n.outs));
  const bent = addBends(count, edges, rank);
  const up = bent.ranks.map(() => []), down = bent.ranks.map(() => []);
  for (const { a, b } of bent.links) {
    down[a].push(b);
    up[b].push(a);
  }
  const rankCount = bent.ranks.reduce((most, r) => Math.max(most, r + 1), 1);
  const layers = orderLayers(firstOrder(bent.ranks, down, rankCount), up, down, bent.ranks.length);
  centreBends(layers, up, down, count);
  const widthOf = (v) => (v < count ? NODE_WIDTH + GAP_X : BEND_GAP);
  const cuts = cutColumns(layers, widthOf, aspect);
  const placed = placeVertices(layers, cuts, bent, { up, down }, widthOf, count);
  return { ...placed, ranks: bent.ranks, layers, links: bent.links, routes: bent.routes };
}

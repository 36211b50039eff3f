-- each click with the campaigns that ran at its time
SELECT c.id, c.visitor, k.name AS campaign
FROM {{ ref('clicks') }} c
JOIN {{ ref('campaigns') }} k ON c.ts BETWEEN k.starts AND k.ends
